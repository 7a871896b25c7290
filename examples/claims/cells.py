"""What the tables of docs/claims.md and docs/papers.md have in common."""
import judge
import paired


def number(value, ratio=False):
    return f"{value:.2f}" if ratio else f"{value:+.4f}"


def p_text(p):
    return f"{p:.3f}" if p >= 0.001 else f"{p:.0e}".replace("e-0", "e-")


def markdown(head, rows):
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [head, ["---"] * len(head), *rows])


def gap_cell(arms, arm, seeds):
    values = judge.contrast(arms, f"{arm} - bf16", seeds)
    low, high = paired.interval(values)
    return f"{paired.mean_and_error(values)[0]:+.4f} ({low:+.4f} to {high:+.4f})"


def what_trained(names):
    """The results with the programs that made them."""
    families = {}  # by what trained them
    for name in names:
        r = judge.results_of(name)
        program = r["program"]
        families.setdefault((f"{program['version']}, {program['commit']}", program["arithmetic"]), []).append(
            f"[{name}](../examples/claims/results/{name}.json) ({len(r['arms']) * len(r['seeds'])})")
    return markdown(["results (runs)", "mxtape, commit", "arithmetic"],
                    [[", ".join(results), *by] for by, results in families.items()])
