#!/usr/bin/env python3
"""The tables of docs/claims.md and docs/resume.md, from protocol/*.toml and results/*.json beside this file. Python 3.11.

    tables.py                              prints them all
    tables.py --write PAGE...              puts them into pages, between '<!-- table: NAME -->' and '<!-- end -->'
    tables.py --check PAGE...              says which tables of the pages differ, and exits with 1
    tables.py --contrast FILE "A - B" ...  contrasts of arms of any results.json, seed by seed

protocol/README.md says what a contrast is, and how verdicts are reached.
"""
import json
import pathlib
import re
import sys

import paired

here = pathlib.Path(__file__).parent
level = 0.05
families = ["formats", "rules", "gradients", "int4", "resume-shakespeare", "resume-demo", "four-bit", "four-bit-demo",
            "four-bit-2000", "demo-best-rates"]


def read_results(path):
    return json.loads(pathlib.Path(path).read_text())


def results_of(name):
    return read_results(here / "results" / f"{name}.json")


def protocol_of(name):
    import tomllib
    return tomllib.loads((here / "protocol" / f"{name}.toml").read_text())


def losses(results, measure="loss"):
    return {a["name"]: {r["seed"]: r[measure] for r in a["runs"] if measure in r} for a in results["arms"]}


def contrast(arms, text, seeds):
    """A signed sum of arms, 'A - B + 2*C', for each seed."""
    parts = re.split(r" ([+-]) ", text)
    values = [0.0] * len(seeds)
    for sign, name in zip(["+", *parts[1::2]], parts[::2]):
        factor, star, rest = name.partition("*")
        weight, arm = (float(factor), rest) if star else (1.0, name)
        if arm not in arms:
            sys.exit(f"tables.py: no arm '{arm}' in '{text}'; there are {', '.join(arms)}")
        weight = -weight if sign == "-" else weight
        values = [v + weight * arms[arm][seed] for v, seed in zip(values, seeds)]
    return values


def judged(spec, results, seeds):
    """A contrast's numbers, without Holm's correction, which needs the family."""
    arms = losses(results, spec.get("measure", "loss"))
    word, limit = spec["want"].split()
    limit = float(limit)
    values = shown = contrast(arms, spec["of"], seeds)
    row = {"spec": spec, "n": len(seeds)}
    if "over" in spec:
        below = contrast(arms, spec["over"], seeds)
        row["mean"] = paired.mean_and_error(values)[0] / paired.mean_and_error(below)[0]
        row["interval"] = paired.fieller(values, below)
        values, limit = [a - limit * b for a, b in zip(values, below)], 0.0
    else:
        row["mean"], row["interval"] = paired.mean_and_error(shown)[0], paired.interval(shown)
    mean, error = paired.mean_and_error(values)
    side = {"above": mean > limit, "below": mean < limit, "within": abs(mean) < limit}[word]
    if word == "within":
        row["p"] = (paired.equivalence(values, limit) if side else
                    paired.two_sided(values, limit if mean > 0 else -limit))
    else:
        row["p"] = paired.two_sided(values, limit)
    on_side = sum((v > limit) if word == "above" else (v < limit) if word == "below" else (abs(v) < limit) for v in values)
    row["side"], row["seeds_on_side"] = side, on_side
    row["strict"] = (on_side >= spec.get("share", 0) * len(values) and
                     abs(mean - (limit if word != "within" else 0)) > spec.get("errors", 0) * error)
    return row


def seeds_of(family, claim):
    return family["decide"] if claim.get("seeds") != "all" else sorted(family["chose"] + family["decide"])


def judge(name):
    """The claims of a family with their rows, corrected and judged."""
    family = protocol_of(name)
    results = results_of(family["results"])
    claims = [(claim, [judged(c, results, seeds_of(family, claim)) for c in claim["contrasts"]])
              for claim in family["claim"]]
    primary = [row for _, rows in claims for row in rows if not row["spec"].get("secondary")]
    for row, p in zip(primary, paired.holm([row["p"] for row in primary])):
        row["holm"] = p
        row["verdict"] = ("not resolved" if p >= level or (row["side"] and not row["strict"]) else
                          "holds" if row["side"] else "fails")
    return claims


def verdict_of(rows):
    words = [row["verdict"] for row in rows if "verdict" in row]
    return "fails" if "fails" in words else "holds" if set(words) == {"holds"} else "not resolved"


def number(value, ratio=False):
    return f"{value:.2f}" if ratio else f"{value:+.4f}"


def p_text(p):
    return f"{p:.3f}" if p >= 0.001 else f"{p:.0e}".replace("e-0", "e-")


def interval_text(row):
    ratio = "over" in row["spec"]
    return " to ".join(number(v, ratio) for v in row["interval"]) if row["interval"] else "unbounded"


def markdown(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def id_number(claim):
    return int(claim["id"][1:])


def claims_table():
    """The claims of the literature with criterion and verdict."""
    entries = []
    for name in families:
        if name.startswith(("four-bit", "demo")):
            continue
        for claim, rows in judge(name):
            entries.append((id_number(claim), [claim["id"], claim["claim"], claim["source"], claim["criterion"],
                                               f"**{verdict_of(rows)}**"]))
    for claim in protocol_of("untested")["claim"]:
        entries.append((id_number(claim), [claim["id"], claim["claim"], claim["source"], "",
                                           f"not tested, because {claim['reason']}"]))
    entries.sort(key=lambda e: e[0])
    return markdown(["", "claim", "source", "criterion", "verdict"], [e[1] for e in entries])


def contrasts_table(names):
    rows = []
    for name in names:
        for claim, contrasts in judge(name):
            for row in contrasts:
                spec = row["spec"]
                rows.append([claim["id"], spec.get("name", spec["of"]), spec["want"], row["n"],
                             number(row["mean"], "over" in spec), interval_text(row),
                             p_text(row["holm"]) if "holm" in row else "", row.get("verdict", "")])
    return markdown(["", "contrast", "wanted", "n", "mean", "95 % interval", "p, Holm", ""], rows)


def gap_cell(arms, arm, baseline, seeds):
    values = contrast(arms, f"{arm} - {baseline}", seeds)
    low, high = paired.interval(values)
    return f"{paired.mean_and_error(values)[0]:+.4f} ({low:+.4f} to {high:+.4f})"


def cells_table():
    """T10's twelve cells: the gap to bf16."""
    arms, seeds = losses(results_of("gradients")), protocol_of("gradients")["decide"]
    rows = []
    for scale, text in (("floor", "`floor`"), ("floor, alpha 0.75", "`floor alpha=0.75`"), ("rceil", "`rceil`")):
        rows.append([text, *(gap_cell(arms, f"{scale}, {rounding}{h}", "bf16", seeds)
                             for h in ("", ", H32") for rounding in ("nearest", "stochastic"))])
    return markdown(["scale", "nearest", "stochastic", "nearest, H32", "stochastic, H32"], rows)


def verdict_within(values, tolerance):
    """The words of `mxtape sweep`."""
    low, high = paired.interval(values)
    mean = paired.mean_and_error(values)[0]
    if abs(mean) < tolerance and paired.equivalence(values, tolerance) < level:
        return "within"
    return "worse" if low > 0 else "better" if high < 0 else "not resolved"


def four_bit_table():
    family, results = protocol_of("four-bit"), results_of("four-bit")
    arms = losses(results)
    rows = []
    for arm in arms:
        if arm == "bf16":
            continue
        first = paired.mean_and_error(contrast(arms, f"{arm} - bf16", family["chose"]))[0]
        fresh = contrast(arms, f"{arm} - bf16", family["decide"])
        rows.append([arm, f"{first:+.4f}", gap_cell(arms, arm, "bf16", family["decide"]),
                     verdict_within(fresh, results["tolerance"])])
    return markdown(["arm", "seeds 1 to 5", "seeds 6 to 13, 95 % interval", f"for {results['tolerance']}"], rows)


def models_table():
    """F1 to F4 in the three models."""
    models = {"four-bit": "2 x 64", "four-bit-2000": "4 x 128", "four-bit-demo": "the demo"}
    rows = []
    for name, text in models.items():
        for claim, contrasts in judge(name):
            for row in contrasts:
                rows.append([text, claim["id"], row["spec"].get("name", row["spec"]["of"]), row["spec"]["want"],
                             number(row["mean"]), interval_text(row), p_text(row["holm"]), f"**{row['verdict']}**"])
    return markdown(["model", "", "contrast", "wanted", "mean", "95 % interval", "p, Holm", ""], rows)


def rates_table():
    """Mean loss by learning rate on the seeds that choose."""
    arms = losses(results_of("demo-rates"))
    rates = ["0.002", "0.004", "0.008", "0.016"]
    rows = []
    for fragment in ("bf16", "mxfp4", "four-bit"):
        means = [paired.mean_and_error(list(arms[f"recipe=precision-{fragment},learning_rate={r}"].values())) for r in rates]
        best = min(means)
        rows.append([fragment, *(f"{'**' if m == best else ''}{m[0]:.4f}{'**' if m == best else ''} ({m[1]:.4f})" for m in means)])
    return markdown(["", "2e-3", "4e-3", "8e-3", "16e-3"], rows)


def resume_table(name):
    family, results = protocol_of(name), results_of(name)
    after, last = losses(results, "after"), losses(results)
    rows = []
    for arm in ("all MXFP4", "MXFP6, MXFP4 gradients", "all MXFP6"):
        rows.append([arm, gap_cell(after, arm, "bf16", family["decide"]), gap_cell(last, arm, "bf16", family["decide"]),
                     f"{paired.mean_and_error([last[arm][s] for s in family['decide']])[0]:.4f}"])
    rows.append(["bf16", 0, 0, f"{paired.mean_and_error([last['bf16'][s] for s in family['decide']])[0]:.4f}"])
    return markdown(["", "jump", "final gap", "final loss"], rows)


def runs_table():
    """What trained each family."""
    rows = []
    for path in sorted((here / "results").glob("*.json")):
        r = read_results(path)
        rows.append([f"[{path.stem}](../examples/claims/results/{path.name})", len(r["arms"]) * len(r["seeds"]), r["steps"],
                     f"{r['program']['version']}, {r['program']['commit']}", r["program"]["arithmetic"]])
    return markdown(["results", "runs", "steps", "mxtape, commit", "arithmetic"], rows)


tables = {
    "claims": claims_table,
    "contrasts": lambda: contrasts_table(f for f in families if not f.startswith(("four-bit", "demo"))),
    "cells": cells_table, "four-bit": four_bit_table, "models": models_table, "rates": rates_table,
    "best-rates": lambda: contrasts_table(["demo-best-rates"]),
    "resume-shakespeare": lambda: resume_table("resume-shakespeare"), "resume-demo": lambda: resume_table("resume-demo"),
    "runs": runs_table}


def renewed(text, page):
    def block(match):
        if match[1] not in tables:
            sys.exit(f"tables.py: {page}: no table '{match[1]}'; there are {', '.join(tables)}")
        return f"<!-- table: {match[1]} -->\n{tables[match[1]]()}\n<!-- end -->"
    return re.sub(r"<!-- table: ([\w-]+) -->\n.*?<!-- end -->", block, text, flags=re.S)


def main(arguments):
    if not arguments:
        print("\n\n".join(f"{name}\n\n{table()}" for name, table in tables.items()))
    elif arguments[0] == "--contrast" and len(arguments) > 2:
        results = read_results(arguments[1])
        for text in arguments[2:]:
            values = contrast(losses(results), text, sorted(results["seeds"]))
            (mean, error), (low, high) = paired.mean_and_error(values), paired.interval(values)
            print(f"{text}: {mean:+.4f} +- {error:.4f}, {low:+.4f} to {high:+.4f}, n {len(values)}, "
                  f"p {p_text(paired.two_sided(values))}, above 0 in {sum(v > 0 for v in values)}")
    elif arguments[0] in ("--write", "--check") and len(arguments) > 1:
        old = 0
        for page in map(pathlib.Path, arguments[1:]):
            text = page.read_text()
            new = renewed(text, page)
            if new != text and arguments[0] == "--check":
                print(f"{page}: its tables are not those of the results; examples/claims/tables.py --write {page}")
                old = 1
            elif new != text:
                page.write_text(new)
        return old
    else:
        sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
