"""Writes FILE.gguf as other programs do, with the gguf package's own writer: a GPT-2 of random weights with the tokens, merges
and pattern of TOKENIZER.json, a byte-level BPE as GPT-2's.
usage: write_gguf.py TOKENIZER.json FILE.gguf"""
import json
import sys

import numpy as np
from gguf import GGUFWriter, TokenType

rules = json.load(open(sys.argv[1]))
tokens = {id: token for token, id in rules["model"]["vocab"].items()}
special = {token["id"]: token["content"] for token in rules["added_tokens"]}
tokens.update(special)
size, width, layers, context = len(tokens), 32, 2, 64
writer = GGUFWriter(sys.argv[2], "gpt2")
writer.add_context_length(context)
writer.add_embedding_length(width)
writer.add_feed_forward_length(4 * width)
writer.add_block_count(layers)
writer.add_head_count(2)
writer.add_layer_norm_eps(1e-5)
writer.add_tokenizer_model("gpt2")
writer.add_tokenizer_pre("gpt-2")
writer.add_token_list([tokens[id] for id in range(size)])
writer.add_token_types([TokenType.CONTROL if id in special else TokenType.NORMAL for id in range(size)])
writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in rules["model"]["merges"]])
writer.add_eos_token_id(max(special))
generator = np.random.default_rng(0)


def add(name, *shape):
    numbers = generator.standard_normal(shape, np.float32) * 0.3
    writer.add_tensor(name, numbers + 1 if "norm.weight" in name else numbers)


add("token_embd.weight", size, width)
add("position_embd.weight", context, width)
for block in range(layers):
    for name, rows, cols in (("attn_qkv", 3 * width, width), ("attn_output", width, width), ("ffn_up", 4 * width, width),
                             ("ffn_down", width, 4 * width)):
        add(f"blk.{block}.{name}.weight", rows, cols)
        add(f"blk.{block}.{name}.bias", rows)
    for name in ("attn_norm", "ffn_norm"):
        add(f"blk.{block}.{name}.weight", width)
        add(f"blk.{block}.{name}.bias", width)
add("output_norm.weight", width)
add("output_norm.bias", width)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
