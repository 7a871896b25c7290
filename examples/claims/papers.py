"""The tables of docs/papers.md, printed by tables.py."""
import judge
from cells import gap_text, interval_text, markdown, number, what_trained


def slots_text(rounding):
    """What each GEMM multiplies, its two operands and what is done to both; GEMMs that do the same share a line."""
    gemms = {}
    for gemm, sides in (("fprop", ("x", "w")), ("dgrad", ("dy", "w")), ("wgrad", ("dy", "x"))):
        formats = dict.fromkeys(rounding[f"{gemm}.{side}"] for side in sides)
        others = [rounding[key] for key in (f"{gemm}.hadamard", f"{gemm}.source") if key in rounding]
        gemms.setdefault(", ".join(f"`{text}`" for text in [*formats, *others]), []).append(gemm)
    return "<br>".join(f"{', '.join(names)}: {text}" for text, names in gemms.items())


def efficiency_text(found):
    ratio = found["ratio"]
    return f"{number(ratio['value'], True)} {interval_text(ratio['interval95'], True)}" if ratio else found["why"]


def papers_table():
    """Each paper's recipe, by its gap at the longest length."""
    results = judge.results_of("papers")
    names, rows = [arm["name"] for arm in results["arms"]], []

    def of(field, arm, point):
        return next(one for one in results[field] if (one["arm"], one["point"]) == (arm, point)
                    and one.get("along", "tokens") == "tokens")

    def gap_cell(gap):
        return f"{gap_text(gap['gap']['mean'], gap['gap']['interval95'])}, {gap['verdict']}"
    for paper in judge.protocol_of("papers")["paper"]:
        arm = names.index(paper["arm"])
        recipe = paper["recipe"] if "`" in paper["recipe"] else f"`precision/{paper['recipe']}`"
        points = range(len(results["points"]))
        gaps = [of("gaps", arm, point) for point in points]
        rows.append((gaps[-1]["gap"]["mean"], [
            f"{paper['arm']}, {recipe} ({paper['source']}): {paper['deviates']}", slots_text(results["arms"][arm]["rounding"]),
            "<br>".join(map(gap_cell, gaps)), efficiency_text(of("efficiencies", arm, points[-1])), paper["figure"]]))
    head = ["recipe: what deviates", "slots", "gap to bf16", "efficiency", "the paper's figure"]
    return markdown(head, [row for _, row in sorted(rows, key=lambda one: -one[0])])


tables = {"papers": papers_table, "papers-runs": lambda: what_trained(["papers"])}
