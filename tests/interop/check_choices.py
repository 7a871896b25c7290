"""Scores FILE.jsonl (docs/eval.md) with the model of a Hugging Face folder by EleutherAI's lm-evaluation-harness: its
tokenization of pairs, its truncation, its greedy test, and its accuracies. Prints them as JSON.
usage: check_choices.py HF_FOLDER FILE.jsonl CONTEXT"""
import json
import sys

import numpy as np
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask
from lm_eval.models.huggingface import HFLM

folder, file, context = sys.argv[1], sys.argv[2], int(sys.argv[3])
items = [json.loads(line) for line in open(file)]
model = HFLM(pretrained=folder, device="cpu", dtype="float32", batch_size=1, max_length=context, prefix_token_id=0)
requests = [Instance("loglikelihood", item, (item["context"], item.get("delimiter", " ") + choice), i)
            for item in items for i, choice in enumerate(item["choices"])]
answers = iter(model.loglikelihood(requests, disable_tqdm=True))


class Choices(ConfigurableTask):
    """process_results() of the harness, of items that are there already."""

    config = type("Config", (), {"process_results": None, "repeats": 1})()

    def __init__(self, words):
        self.OUTPUT_TYPE = "loglikelihood" if words else "multiple_choice"
        self._metric_fn_list = {name: None for name in (["perplexity", "acc"] if words else ["acc", "acc_norm"])}
        self.multiple_input = self.multiple_target = 0

    def doc_to_choice(self, doc):
        return doc["choices"]

    def doc_to_target(self, doc):
        return doc["answer"]


results, scores = {"acc": [], "acc_norm": [], "words": [], "word_scores": []}, []
for item in items:
    pairs = [next(answers) for _ in item["choices"]]
    scores.append([float(pair[0]) for pair in pairs])
    counted = Choices(len(pairs) == 1).process_results(item, pairs if len(pairs) > 1 else [pairs[0]])
    if len(pairs) == 1:
        results["words"].append(float(counted["acc"]))
        results["word_scores"].append(float(counted["perplexity"]))
    else:
        results["acc"].append(float(counted["acc"]))
        results["acc_norm"].append(float(counted["acc_norm"]))
mean = lambda values: float(np.mean(values)) if values else None
print(json.dumps({"accuracy": mean(results["acc"]), "accuracy_normalised": mean(results["acc_norm"]),
                  "last_word_accuracy": mean(results["words"]),
                  "last_word_perplexity": float(np.exp(-mean(results["word_scores"]))) if results["words"] else None,
                  "log_likelihoods": scores}))
