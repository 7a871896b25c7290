"""Reads FILE.gguf with the gguf package and compares every tensor, dequantized by that package, with the numbers of
ROUNDED.safetensors, which `mxtape export --to safetensors --weights rounded` wrote: bit for bit, but for the sign of zero,
which the package does not keep. Prints the types with their numbers of tensors.
usage: check_gguf.py FILE.gguf ROUNDED.safetensors"""
import json
import sys
from collections import Counter

import numpy as np
from gguf import GGUFReader, dequantize

reader = GGUFReader(sys.argv[1])
raw = open(sys.argv[2], "rb").read()
length = int.from_bytes(raw[:8], "little")
ours = {}
for name, info in json.loads(raw[8 : 8 + length]).items():
    if name != "__metadata__":
        begin, end = info["data_offsets"]
        ours[name] = np.frombuffer(raw[8 + length + begin : 8 + length + end], np.float32).reshape(info["shape"])


def value(key):
    field = reader.get_field(key)
    return None if field is None else field.contents()


architecture = value("general.architecture")
heads = value(architecture + ".attention.head_count")
keys = value(architecture + ".attention.head_count_kv") or heads
width = value(architecture + ".embedding_length")
head = value(architecture + ".attention.key_length") or width // heads
hidden = value(architecture + ".feed_forward_length")
kinds = {"attn_norm": ("norm1", None), "ffn_norm": ("norm2", None), "attn_qkv": ("attn.qkv", None),
         "attn_q": ("attn.qkv", (0, heads * head)), "attn_k": ("attn.qkv", (heads * head, keys * head)),
         "attn_v": ("attn.qkv", ((heads + keys) * head, keys * head)), "attn_output": ("attn.out", None),
         "attn_q_norm": ("attn.q_norm", None), "attn_k_norm": ("attn.k_norm", None), "ffn_gate": ("mlp.gate_up", (0, hidden)),
         "ffn_up": ("mlp.gate_up", (hidden, hidden)) if architecture != "gpt2" else ("mlp.up", None), "ffn_down": ("mlp.down", None)}
outside = {"token_embd": "tokens", "position_embd": "positions", "output_norm": "norm", "output": "head"}


def wanted(name):
    parts = name.split(".")
    kind, role = parts[-2], parts[-1]
    own, rows = (outside[kind], None) if parts[0] != "blk" else kinds[kind]
    full = own if parts[0] != "blk" else f"blocks.{parts[1]}.{own}"
    if role == "weight" and "norm" in own:
        role = "gain"
    values = ours.get(f"{full}.{role}")
    if values is None and role == "bias":
        return None  # GPT-2's class has biases
    if rows:
        values = values[rows[0] : rows[0] + rows[1]]
    if kind in ("attn_q", "attn_k") and architecture == "llama":  # pairs (2i, 2i + 1) for (i, i + D/2)
        shape = values.shape
        values = values.reshape(-1, 2, head // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)
    return values


types = Counter()
tensors = {t.name: t for t in reader.tensors}
for name, tensor in tensors.items():
    if name.endswith(".scale"):
        continue
    found = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    scale = tensors.get(name.replace(".weight", ".scale")) if name.endswith(".weight") else None
    if scale is not None:
        found = found * scale.data[0]
    want = wanted(name)
    if want is None:
        want = np.zeros_like(found)
    if found.shape != want.shape or not np.array_equal(found + 0.0, want + 0.0):
        sys.exit(f"{name}, {tensor.tensor_type.name} {found.shape}: differs from {want.shape}")
    types[tensor.tensor_type.name] += 1
print(" ".join(f"{name}:{count}" for name, count in sorted(types.items())))
