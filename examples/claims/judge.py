"""Contrasts of arms, and the verdicts that protocol/README.md describes."""
import json
import pathlib
import re
import sys

import paired

here = pathlib.Path(__file__).parent
level = 0.05


def read_results(path):
    return json.loads(pathlib.Path(path).read_text())


def results_of(name):
    return read_results(here / "results" / f"{name}.json")


def has_results(name):
    return (here / "results" / f"{name}.json").exists()


def protocol_of(name):
    import tomllib  # not needed to print contrasts, so older Pythons can
    return tomllib.loads((here / "protocol" / f"{name}.toml").read_text())


def losses(results, measure="loss"):
    """Of what keep.py kept, or of a results.json at its last point on the seeds that decide, by arm and seed."""
    if "runs" in results:
        arms = {arm["name"]: {} for arm in results["arms"]}
        at = len(results["points"]) - 1, "confirm" if results["asked"]["confirm"] else "select"
        for run in (run for run in results["runs"] if (run["point"], run["stage"]) == at):
            if run[measure] is not None:
                arms[results["arms"][run["arm"]]["name"]][run["seed"]] = run[measure]
        return arms
    return {arm["name"]: {run["seed"]: run[measure] for run in arm["runs"]} for arm in results["arms"]}


def contrast(arms, text, seeds):
    """A signed sum of arms, 'A - B + 2*C', for each seed."""
    parts = re.split(r" ([+-]) ", text)
    values = [0.0] * len(seeds)
    for sign, term in zip(["+", *parts[1::2]], parts[::2]):
        factor, star, rest = term.partition("*")
        weight, arm = (float(factor), rest) if star else (1.0, term)
        if arm not in arms:
            sys.exit(f"no arm '{arm}' in '{text}'; there are {', '.join(arms)}")
        if sign == "-":
            weight = -weight
        if missing := [seed for seed in seeds if seed not in arms[arm]]:
            sys.exit(f"'{arm}' has no loss of seed {missing[0]}")
        values = [value + weight * arms[arm][seed] for value, seed in zip(values, seeds)]
    return values


def judged(spec, results, seeds):
    """A contrast's numbers, before Holm's correction, which needs the family."""
    arms = losses(results, spec.get("measure", "loss"))
    word, limit = spec["want"].split()
    limit = float(limit)
    values = contrast(arms, spec["of"], seeds)
    row = {"spec": spec, "n": len(seeds), "mean": paired.mean_and_error(values)[0], "interval": paired.interval(values)}
    if "over" in spec:
        below = contrast(arms, spec["over"], seeds)
        row["mean"] /= paired.mean_and_error(below)[0]
        row["interval"] = paired.fieller(values, below)
        values, limit = [a - limit * b for a, b in zip(values, below)], 0.0
    on_side = {"above": lambda v: v > limit, "below": lambda v: v < limit, "within": lambda v: abs(v) < limit}[word]
    mean, error = paired.mean_and_error(values)
    nearest = limit if word != "within" or mean > 0 else -limit
    row["side"] = on_side(mean)
    row["p"] = (paired.equivalence(values, limit) if word == "within" and row["side"] else
                paired.two_sided(values, nearest))
    row["enough"] = (sum(map(on_side, values)) >= spec.get("share", 0) * len(values) and
                     abs(mean - nearest) >= spec.get("errors", 0) * error)
    return row


def judge(name):
    """The claims of a family with their contrasts, corrected and judged."""
    family = protocol_of(name)
    results = results_of(family["results"])
    seeds = {"all": sorted(family["chose"] + family["decide"]), "decide": family["decide"]}
    claims = [(claim, [judged(spec, results, seeds[claim.get("seeds", "decide")]) for spec in claim["contrasts"]])
              for claim in family["claim"]]
    primary = [row for _, rows in claims for row in rows if not row["spec"].get("secondary")]
    for row, p in zip(primary, paired.holm([row["p"] for row in primary])):
        row["holm"] = p
        shown = p < level and (row["enough"] or not row["side"])
        row["verdict"] = "not resolved" if not shown else "holds" if row["side"] else "fails"
    return claims


def verdict_of(rows):
    words = {row["verdict"] for row in rows if "verdict" in row}
    return "fails" if "fails" in words else "holds" if words == {"holds"} else "not resolved"


def word_of_sweep(values, tolerance):
    """The verdict of `mxtape sweep` (docs/sweeps.md)."""
    low, high = paired.interval(values)
    if abs(paired.mean_and_error(values)[0]) < tolerance and paired.equivalence(values, tolerance) < level:
        return "within"
    return "worse" if low > 0 else "better" if high < 0 else "not resolved"
