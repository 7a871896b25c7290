#!/usr/bin/env python3
"""Contrasts of arms, seed by seed, from sweeps' results: the numbers of docs/claims.md.

    contrasts.py runs/claims-rules/results.json "ceil, nearest - floor, nearest" ...

A contrast is a sum of arms' losses with signs ('A - B', 'A - B - C + D'); names are separated by ' - ' and ' + '. Printed:
mean, standard error, and in how many seeds it is above 0.
"""
import json
import re
import statistics
import sys


def losses(results):
    return {arm["name"]: {run["seed"]: run["loss"] for run in arm["runs"]} for arm in results["arms"]}


def contrast(arms, text):
    parts = re.split(r" ([+-]) ", text)
    signed = [(1, parts[0])] + [(1 if s == "+" else -1, name) for s, name in zip(parts[1::2], parts[2::2])]
    for _, name in signed:
        if name not in arms:
            sys.exit(f"contrasts.py: no arm '{name}'; there are {', '.join(arms)}")
    seeds = sorted(arms[signed[0][1]])
    return [sum(sign * arms[name][seed] for sign, name in signed) for seed in seeds]


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    arms = losses(json.load(open(sys.argv[1])))
    for text in sys.argv[2:]:
        values = contrast(arms, text)
        error = statistics.stdev(values) / len(values) ** 0.5
        above = sum(v > 0 for v in values)
        print(f"{text}: {statistics.mean(values):+.4f} +- {error:.4f}, above 0 in {above} of {len(values)}")


main()
