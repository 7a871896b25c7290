"""What the tables of docs/claims.md and docs/papers.md have in common."""
import judge
import paired


def number(value, ratio=False):
    return f"{value:.2f}" if ratio else f"{value:+.4f}"


def interval_text(interval, ratio=False):
    return f"[{number(interval[0], ratio)}, {number(interval[1], ratio)}]"


def p_text(p):
    return f"{p:.3f}" if p >= 0.001 else f"{p:.0e}".replace("e-0", "e-")


def markdown(head, rows):
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [head, ["---"] * len(head), *rows])


def gap_text(mean, interval):
    return f"{number(mean)} ±{(interval[1] - interval[0]) / 2:.4f}"


def gap_cell(arms, arm, seeds):
    values = judge.contrast(arms, f"{arm} - bf16", seeds)
    return gap_text(paired.mean_and_error(values)[0], paired.interval(values))


def what_trained(names):
    """The results with the programs that made them."""
    families = {}  # by version and commit
    for name in names:
        r = judge.results_of(name)
        program = r.get("program", r)
        runs = len(r["runs"]) if "points" in r else len(r["arms"]) * len(r["seeds"])
        families.setdefault(f"{program['version']}, {program['commit']}", []).append(
            f"[{name}](../examples/claims/results/{name}.json) ({runs})")
    return "\n".join(f"Results (runs) of mxtape {version}: {', '.join(results)}." for version, results in families.items())
