#!/usr/bin/env python3
"""What a switch of formats costs: pre-train in bf16, go on from 60 % of the steps in other formats.

  bench/resume_effect.py PROGRAM BASE_RECIPE DATA OUT [--seeds 5]

Trains BASE_RECIPE with each seed to its end: that run, in bf16 throughout, is the control. Then branches it at 60 % with
`--from` into each arm. Batches and draws are the control's, so that losses are compared step by step. Prints, as
means over the seeds with their standard errors: the jump (training loss of the 50 steps after the switch, less
the control's) and the gap (last validation loss, less the control's). Finished runs are not trained again.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys

ARMS = {
    "all MXFP4": "precision/mxfp4",
    "MXFP6, MXFP4 gradients": "precision/mxfp6-mxfp4g",
    "all MXFP6": "precision/mxfp6",
    "bf16": "precision/bf16",
}


def records(run):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    train, validation = {}, {}
    for record in map(json.loads, lines):
        if "validation_loss" in record:
            validation[record["step"]] = record["validation_loss"]
        elif "loss" in record:
            train[record["step"]] = record["loss"]
    return train, validation


def train(options, words, run, steps):
    if (run / "checkpoints" / f"step_{steps:08}.h5").exists():
        return
    command = [options.program, "train", *words, f"--name={run.name}", f"--train.out={run.parent}", "--resume", "auto",
               f"--data.file={options.data}", "--train.sample_tokens=0"]
    done = subprocess.run(command, stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}")


def mean_and_error(values):
    mean = sum(values) / len(values)
    if len(values) < 2:
        return f"{mean:+.4f}"
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
    return f"{mean:+.4f} +- {spread / math.sqrt(len(values)):.4f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("recipe")
    parser.add_argument("data")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    checked = subprocess.run([options.program, "check", options.recipe, f"--data.file={options.data}", "--json",
                              f"--train.out={options.out}", "--resume", "auto"], capture_output=True, text=True)
    steps = json.loads(checked.stdout)["keys"]["train.steps"]["value"]
    switch = steps * 3 // 5
    after = range(switch + 1, switch + 51)
    jumps, gaps, last = ({name: [] for name in ARMS} for _ in range(3))
    for seed in range(1, options.seeds + 1):
        control = options.out / f"{options.recipe}-seed{seed}"
        train(options, [options.recipe, f"--seed={seed}", f"--train.save_every={switch}"], control, steps)
        control_train, control_validation = records(control)
        for name, precision in ARMS.items():
            run = options.out / f"{control.name}-{precision.split('/')[1]}"
            train(options, [precision, "--from", f"{control}@{switch}"], run, steps)
            losses, validation = records(run)
            jumps[name].append(sum(losses[s] - control_train[s] for s in after) / len(after))
            gaps[name].append(validation[steps] - control_validation[steps])
            last[name].append(validation[steps])
            print(f"seed {seed}  {name:<24} {jumps[name][-1]:+.4f} {gaps[name][-1]:+.4f}", flush=True)
    print(f"\n{options.recipe}: {steps} steps, switch at {switch}, {options.seeds} seeds; mean +- standard error")
    print("| from the switch on | jump | final gap | final validation loss |\n|---|---|---|---|")
    for name in ARMS:
        mean = sum(last[name]) / len(last[name])
        print(f"| {name} | {mean_and_error(jumps[name])} | {mean_and_error(gaps[name])} | {mean:.4f} |")


main()
