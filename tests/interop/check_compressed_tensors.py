"""Loads CODES, a folder of `mxtape export --to compressed-tensors`, with transformers and the package compressed-tensors, and
ROUNDED, the same run of `--to hf --weights rounded`. Prints the number of packed layers; the largest difference of weights that the
package decompresses, over the largest weight of each; and that of logits, over the largest, in f32 of decompressed weights and in bf16
of codes.
usage: check_compressed_tensors.py CODES ROUNDED"""
import json
import sys

import torch
from transformers import AutoModelForCausalLM, CompressedTensorsConfig

codes, rounded = sys.argv[1:3]
with open(codes + "/config.json") as file:
    groups = json.load(file)["quantization_config"]["config_groups"].values()
packed = [target for group in groups for target in group["targets"]]


def model(folder, dtype, **more):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **more).eval()


def difference(a, b):
    return float((a - b).abs().max() / b.abs().max())


def logits(one):
    with torch.no_grad():
        return one(torch.arange(12)[None] % one.config.vocab_size).logits.float()


theirs = model(codes, torch.float32, quantization_config=CompressedTensorsConfig(dequantize=True))
ours = model(rounded, torch.float32)
weights = max(difference(theirs.get_submodule(name).weight, ours.get_submodule(name).weight) for name in packed)
print(
    json.dumps(
        {
            "packed": len(packed),
            "weights": weights,
            "logits": difference(logits(theirs), logits(ours)),
            "logits_bf16": difference(logits(model(codes, torch.bfloat16)), logits(model(rounded, torch.bfloat16))),
        }
    )
)
