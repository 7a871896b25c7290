"""The table of docs/papers.md, from protocol/papers.toml and results/papers*.json. Printed by tables.py."""
import judge
import paired
from cells import gap_cell, interval_text, markdown, number, what_trained

sweeps = ["papers", "papers-fp8"]
lengths = [300, 420]  # of bf16 beside the sweeps' own 600: results papers-300 and papers-420
steps = 600


def slots_text(slots):
    """What each GEMM multiplies: its two operands, and what is done to both."""
    lines = []
    for gemm, sides in (("fprop", ("x", "w")), ("dgrad", ("dy", "w")), ("wgrad", ("dy", "x"))):
        formats = [slots[f"{gemm}.{side}"] for side in sides]
        operands = ([f"`{formats[0]}`"] if formats[0] == formats[1]
                    else [f"{side} `{text}`" for side, text in zip(sides, formats)])
        others = [f"`{text}`" for key, text in slots.items() if key in (f"{gemm}.hadamard", f"{gemm}.source")]
        lines.append(f"{gemm}: {', '.join(operands + others)}")
    return "<br>".join(lines)


def steps_that_reach(curve, loss):
    """After how many steps the baseline has this loss: straight in log steps between (steps, loss), None outside."""
    for (few, high), (many, low) in zip(curve, curve[1:]):
        if low <= loss <= high:
            return few if high == low else few * (many / few) ** ((high - loss) / (high - low))
    return None


def efficiency_cell(arms, arm, seeds):
    """Steps that bf16 needs for the arm's loss, over the arm's own: for each seed, and then their mean."""
    shorter = [(n, judge.losses(judge.results_of(f"papers-{n}"))["bf16"]) for n in lengths
               if judge.has_results(f"papers-{n}")]
    if not shorter:
        return ""
    curves = [[(n, losses[seed]) for n, losses in shorter] + [(steps, arms["bf16"][seed])] for seed in seeds]
    reached = [steps_that_reach(curve, arms[arm][seed]) for curve, seed in zip(curves, seeds)]
    if None in reached:
        better = [arms[arm][seed] < curve[-1][1] for curve, seed, at in zip(curves, seeds, reached) if at is None]
        return ("above 1" if all(better) else f"below {shorter[0][0] / steps:g}") + f" in {reached.count(None)} of {len(seeds)}"
    ratios = [at / steps for at in reached]
    return f"{number(paired.mean_and_error(ratios)[0], True)} {interval_text(paired.interval(ratios), True)}"


def papers_table():
    """Each paper's recipe, the largest gap first; what was not trained comes last."""
    trained, rest = [], []
    for row in judge.protocol_of("papers")["paper"]:
        recipe = row["recipe"] if "`" in row["recipe"] else f"`precision/{row['recipe']}`"
        known = [f"{row['arm']}, {recipe} ({row['source']})"]
        results = next((r for r in map(judge.results_of, filter(judge.has_results, sweeps))
                        if row["arm"] in judge.losses(r)), None)
        if results is None:
            rest.append(f"* {known[0]}")
            continue
        arms, seeds = judge.losses(results), sorted(results["seeds"])
        values = judge.contrast(arms, f"{row['arm']} - bf16", seeds)
        slots = next(arm["slots"] for arm in results["arms"] if arm["name"] == row["arm"])
        trained.append((paired.mean_and_error(values)[0], [
            *known, slots_text(slots), row["deviates"], gap_cell(arms, row["arm"], seeds),
            judge.word_of_sweep(values, results["tolerance"]), efficiency_cell(arms, row["arm"], seeds), row["figure"]]))
    trained.sort(key=lambda one: -one[0])
    head = ["", "slots", "deviates", "gap to bf16", "for 0.02", "efficiency", "the paper's figure"]
    return (markdown(head, [line for _, line in trained]) + "\n\nNot trained:\n\n"
            + "\n".join(rest))


def runs_table():
    return what_trained(filter(judge.has_results, sweeps + [f"papers-{n}" for n in lengths]))


tables = {"papers": papers_table, "papers-runs": runs_table}
