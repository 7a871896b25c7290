#!/usr/bin/env python3
"""Runs several timing commands in turn, A B C A B C ..., and prints medians and ratios to the first.

Each command prints one JSON line with name and median_ms (bench_step --json, torch_step.py). A ratio is taken within a
round, so it survives a machine whose speed drifts.

  bench/peers/in_turn.py --rounds 5 \
    "build/bench/bench_step shakespeare-6x384-mxfp4 --json" "python3 bench/peers/torch_step.py --peer torch-bf16"
"""
import argparse
import json
import shlex
import statistics
import subprocess
import sys


def measure(command):
    done = subprocess.run(shlex.split(command), stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"in_turn: exit code {done.returncode} from: {command}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("commands", nargs="+")
    a.add_argument("--rounds", type=int, default=5)
    o = a.parse_args()
    rounds = []
    for i in range(o.rounds):
        rounds.append([measure(c) for c in o.commands])
        print(f"round {i + 1} of {o.rounds}", file=sys.stderr)
    print(f"{'what':<34}{'median ms':>11}{'min':>10}{'max':>10}{'ratio':>8}{'min':>7}{'max':>7}{'peak MiB':>10}")
    for i, first in enumerate(rounds[0]):
        ms = [r[i]["median_ms"] for r in rounds]
        ratios = [r[i]["median_ms"] / r[0]["median_ms"] for r in rounds]
        print(f"{first['name']:<34}{statistics.median(ms):>11.2f}{min(ms):>10.2f}{max(ms):>10.2f}"
              f"{statistics.median(ratios):>8.2f}{min(ratios):>7.2f}{max(ratios):>7.2f}"
              f"{statistics.median(r[i]['peak_mib'] for r in rounds):>10.0f}")


if __name__ == "__main__":
    main()
