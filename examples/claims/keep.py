#!/usr/bin/env python3
"""Keeps of a finished sweep what docs/claims.md and docs/papers.md need: losses, and what trained them.

    keep.py build/mxtape runs/claims-rules rules        writes examples/claims/results/rules.json

Times, memory and folders stay behind. Where formats change during an arm, each run has `after` too: the mean training loss of
the steps that results.json names for the change. Of a sweep with [points] all is kept, for
`mxtape sweep --report`; each arm has `rounding` besides, all that `mxtape check` says of a layer in the middle.
"""
import json
import pathlib
import statistics
import subprocess
import sys


def training_losses(folder):
    records = (json.loads(line) for line in open(folder / "metrics.jsonl"))
    return {r["step"]: r["loss"] for r in records if "loss" in r}


def slots_of(program, recipe):
    """Of the first step, in the second block, as some recipes leave the first in bf16."""
    plan = json.loads(subprocess.run([program, "check", str(recipe), "--json"], capture_output=True, text=True).stdout)
    return next(layer["slots"] for layer in plan["precision"][0]["layers"] if layer["layer"] == "blocks.1.mlp.up")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    program, sweep, name = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    results = json.load(open(sweep / "results.json"))
    if not results["complete"]:
        sys.exit(f"keep.py: {sweep}: the sweep is not complete")
    out = pathlib.Path(__file__).parent / "results" / f"{name}.json"
    asked = results["asked"]
    if asked["lengths"]:
        point = results["points"][-1]["name"].replace(" x ", "/")
        for arm in results["arms"]:
            arm["rounding"] = slots_of(program, sweep / "recipes" / point / f"{arm['name']}.toml")
        out.write_text(json.dumps(results) + "\n")
        return print(f"{out}: {len(results['arms'])} arms, {len(results['points'])} points")
    kept = {"file": pathlib.Path(asked["file"]).name, "base": asked["base"], "baseline": asked["baseline"],
            "seeds": asked["select"], "tolerance": asked["tolerance"], "steps": results["points"][0]["steps"],
            "program": {key: results[key] for key in ("version", "arithmetic", "commit")},
            "data": {"hash": results["data_hash"], "floor": results["floor"]}, "arms": []}
    changes = {(s["step"], s["steps"]) for s in results["switches"]}
    for index, arm in enumerate(results["arms"]):
        one = {"name": arm["name"], "differences": arm["differences"], "runs": []}
        kept["arms"].append(one)
        for run in results["runs"]:
            if run["arm"] != index:
                continue
            one["runs"].append({"seed": run["seed"], "loss": run["loss"]})
            for start, count in changes:
                losses = training_losses(sweep / run["folder"])
                one["runs"][-1]["after"] = statistics.fmean(losses[start + 1 + i] for i in range(count))
        if index == results["baseline"]:
            one["recipe"] = arm["recipe"]
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"{out}: {len(kept['arms'])} arms, seeds {kept['seeds']}")


main()
