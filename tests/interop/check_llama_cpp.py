"""Runs FILE.gguf with llama.cpp (PyPI's llama-cpp-python): prints as JSON its token ids of TEXT, the loss of each window of
its context on them (mean of the negative log-likelihoods, as `mxtape eval --text` takes it with its default stride), and
the ids that it adds greedily to the first SHOWN ids of the text.
usage: check_llama_cpp.py FILE.gguf TEXT CONTEXT SHOWN ADDED"""
import json
import sys

import numpy as np
from llama_cpp import Llama

text = open(sys.argv[2], "rb").read()
context, shown, added = (int(n) for n in sys.argv[3:])
f32 = 0  # ggml's number of the type: keys and values are not rounded to f16
model = Llama(sys.argv[1], n_ctx=context, n_batch=4096, logits_all=True, type_k=f32, type_v=f32, flash_attn=False, verbose=False)
ids = model.tokenize(text, add_bos=False, special=False)
losses = {}  # of a position
starts = list(range(0, len(ids) - context, context)) + [max(len(ids) - 1 - context, 0)]
for start in starts:
    window = ids[start : start + context]
    model.reset()
    model.eval(window)
    logits = np.array(model.scores[: len(window)], np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    likelihoods = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    for i in range(len(window)):
        position = start + i + 1
        if position < len(ids) and position not in losses:
            losses[position] = -likelihoods[i, ids[position]]
model.reset()
model.eval(ids[:shown])
greedy = []
for _ in range(added):
    greedy.append(int(np.argmax(model.scores[model.n_tokens - 1])))
    model.eval([greedy[-1]])
print(json.dumps({"ids": ids, "loss": float(np.mean(list(losses.values()))), "scored": len(losses), "greedy": greedy}))
