#!/usr/bin/env python3
"""The tables of docs/claims.md and docs/papers.md, from protocol/*.toml and results/*.json beside this file. Python 3.11.

    tables.py                              prints them all
    tables.py --write PAGE...              puts them into pages, between '<!-- table: NAME -->' and '<!-- end -->'
    tables.py --check PAGE...              says which pages have other tables, and exits with 1
    tables.py --contrast FILE "A - B" ...  contrasts of arms of any results.json, seed by seed

protocol/README.md says what a contrast is, and how verdicts are reached.
"""
import pathlib
import re
import sys

import judge
import paired
import papers
from cells import gap_cell, gap_text, interval_text, markdown, number, p_text, what_trained

literature = ["formats", "rules", "gradients", "int4", "resume-shakespeare", "resume-demo"]
four_bit = ["four-bit", "four-bit-2000", "four-bit-demo"]


def claims_table():
    """The claims of the literature and their verdicts."""
    judged = [one for name in filter(judge.has_results, literature) for one in judge.judge(name)]
    return "\n".join(f"* {claim['id']} **{judge.verdict_of(contrasts)}**: {claim['claim']} ({claim['source']})."
                     for claim, contrasts in sorted(judged, key=lambda one: int(one[0]["id"][1:])))


def untested_table():
    """The claims that no sweep here can test, and those whose seeds have not been trained."""
    rows = [[claim["id"], claim["claim"], claim["source"], claim["reason"]]
            for claim in judge.protocol_of("untested")["claim"]]
    for name in literature:
        if not judge.has_results(name):
            family = judge.protocol_of(name)
            rows += [[claim["id"], claim["claim"], claim["source"], f"seeds {family['decide'][0]} to "
                      f"{family['decide'][-1]} have not been trained"] for claim in family["claim"]]
    return markdown(["", "claim", "source", "not tested, because"], sorted(rows, key=lambda row: int(row[0][1:])))


def contrasts_table(families, secondary=False):
    """Those that decide, or the others."""
    rows = []
    for name in filter(judge.has_results, families):
        for claim, contrasts in judge.judge(name):
            for row in contrasts:
                spec, ratio = row["spec"], "over" in row["spec"]
                if spec.get("secondary", False) != secondary:
                    continue
                interval = interval_text(row["interval"], ratio) if row["interval"] else "unbounded"
                rows.append([name, claim["id"], spec.get("name", spec["of"]), spec["want"],
                             number(row["mean"], ratio), interval, p_text(row["holm"]) if "holm" in row else "",
                             row.get("verdict", "")])
    head = ["family", "", "contrast", "wanted", "mean", "95 % interval", "p, Holm", ""]
    no_family = families == literature  # a claim says its own
    return markdown(head[no_family:], [row[no_family:] for row in rows])


def cells_table():
    """T10's twelve cells."""
    arms, seeds = judge.losses(judge.results_of("gradients")), judge.protocol_of("gradients")["decide"]
    rows = [[text, *(gap_cell(arms, f"{scale}, {rounding}{h}", seeds)
                     for h in ("", ", H32") for rounding in ("nearest", "stochastic"))]
            for scale, text in (("floor", "`floor`"), ("floor, alpha 0.75", "`floor alpha=0.75`"), ("rceil", "`rceil`"))]
    return markdown(["scale", "nearest", "stochastic", "nearest, H32", "stochastic, H32"], rows)


def four_bit_table():
    family, results = judge.protocol_of("four-bit"), judge.results_of("four-bit")
    arms, tolerance = judge.losses(results), results["tolerance"]
    rows = []
    for arm in arms:
        if arm == results["baseline"]:
            continue
        decide = judge.contrast(arms, f"{arm} - bf16", family["decide"])
        rows.append([arm, gap_cell(arms, arm, family["decide"]), judge.word_of_sweep(decide, tolerance)])
    return markdown(["arm", "gap to bf16", f"for {tolerance}"], rows)


def points_table(name, shown):
    """Of a sweep with [points]: each arm's gap, verdict and efficiency in tokens at each, of the seeds that decide."""
    results = judge.results_of(name)
    points = [point for point, one in enumerate(results["points"]) if one["name"] in shown]
    decided = [one for one in results["gaps"] if one["stage"] == results["efficiencies"][0]["stage"]]

    def cell(arm, point):
        here = [one for one in decided + results["efficiencies"]
                if (one["arm"], one["point"]) == (arm, point) and one.get("along", "tokens") == "tokens"]
        gap, efficiency = here[0], here[1]["ratio"]
        text = f"{gap_text(gap['gap']['mean'], gap['gap']['interval95'])}, {gap['verdict']}"
        return text + (f", {number(efficiency['value'], True)}" if efficiency else "")
    names = [arm["name"] for arm in results["arms"]]
    rows = [[name, *(cell(arm, point) for point in points)]
            for arm, name in enumerate(names) if any(one["arm"] == arm and one["gap"] for one in decided)]
    return markdown(["", *(results["points"][point]["name"] for point in points)], rows)


def runs_table():
    """What trained each family."""
    names = (path.stem for path in sorted((judge.here / "results").glob("*.json")))
    return what_trained(name for name in names if not name.startswith("papers"))


tables = {
    "claims": claims_table, "contrasts": lambda: contrasts_table(literature), "cells": cells_table,
    "four-bit": four_bit_table, "models": lambda: contrasts_table(four_bit), "runs": runs_table,
    "untested": untested_table, "secondary": lambda: contrasts_table(literature + four_bit, secondary=True),
    "law": lambda: points_table("referee-law", ["w96 x 20", "w96 x 40"]),
    "referee": lambda: points_table("referee-w64", ["w64 x 10", "w64 x 30", "w64 x 80"]),
    **papers.tables}


def renewed(text, page):
    def block(match):
        if match[1] not in tables:
            sys.exit(f"tables.py: {page}: no table '{match[1]}'; there are {', '.join(tables)}")
        return f"<!-- table: {match[1]} -->\n{tables[match[1]]()}\n<!-- end -->"
    return re.sub(r"<!-- table: ([\w-]+) -->\n.*?<!-- end -->", block, text, flags=re.S)


def print_contrasts(path, texts):
    arms = judge.losses(judge.read_results(path))
    for text in texts:
        values = judge.contrast(arms, text, sorted(next(iter(arms.values()))))
        (mean, error), (low, high) = paired.mean_and_error(values), paired.interval(values)
        print(f"{text}: {mean:+.4f} +- {error:.4f}, {low:+.4f} to {high:+.4f}, n {len(values)}, "
              f"p {p_text(paired.two_sided(values))}, above 0 in {sum(v > 0 for v in values)}")


def main(arguments):
    if not arguments:
        print("\n\n".join(f"{name}\n\n{table()}" for name, table in tables.items()))
        return 0
    if arguments[0] == "--contrast" and len(arguments) > 2:
        print_contrasts(arguments[1], arguments[2:])
        return 0
    if arguments[0] not in ("--write", "--check") or len(arguments) == 1:
        sys.exit(__doc__)
    other = 0
    for page in map(pathlib.Path, arguments[1:]):
        text = page.read_text()
        new = renewed(text, page)
        if new == text:
            continue
        if arguments[0] == "--write":
            page.write_text(new)
        else:
            print(f"{page}: its tables are not those of the results; run tables.py --write {page}")
            other = 1
    return other


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
