"""The passage of docs/evidence.md on uncertainty: the default beside Monte Carlo DropOut."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphdrop.experiments.comparisons import Difference, resampled_t, seeds_alone
from graphdrop.experiments.worth import DIGITS, interval_text
from graphdrop.experiments.worth_comparisons import Comparison, Seen
from graphdrop.experiments.worth_page import GRAPHS, Made
from graphdrop.report.tables import summarise

UNCERTAINTY: dict[str, tuple[Callable[[Seen], float], int]] = {
    "ECE (points)": (lambda seen: 100.0 * seen["test"]["ece"], 2),
    "AURC": (lambda seen: seen["test"]["aurc"], 4),
    "PAvPU (points)": (lambda seen: 100.0 * seen["test"]["pavpu"], 2),
}


def uncertainty(made: Made) -> str:
    """Scores of the default and how far Monte Carlo DropOut is from it, on every graph."""
    lines = [
        "| | NLL | ECE (points) | floor (points) | AURC | PAvPU (points) |",
        "|---|---|---|---|---|---|",
    ]
    for one in made.by_factor["sharing"]:
        if one.arm.name == "none":
            lines += _uncertainty_rows(one)
    if len(lines) == 2:
        return "No graph has all its runs yet."
    return "\n".join(lines)


def _uncertainty_rows(one: Comparison) -> list[str]:
    graph, rows = GRAPHS[one.graph], []
    for name, runs in (("default", one.others), ("Monte Carlo DropOut", one.runs)):
        scores = {
            "NLL": ([seen["test"]["nll"] for seen in runs.values()], 3),
            "floor": ([100.0 * seen["ece_floor"]["mean"] for seen in runs.values()], 2),
        } | {key: ([of(s) for s in runs.values()], d) for key, (of, d) in UNCERTAINTY.items()}
        order = ("NLL", "ECE (points)", "floor", "AURC", "PAvPU (points)")
        cells = [_mean(*scores[key]) for key in order]
        rows.append(f"| {graph}, {name} | {' | '.join(cells)} |")
    differences = {"NLL": (one.differences["nll"], DIGITS["nll"])} | {
        key: (_descriptive(one, of), digits) for key, (of, digits) in UNCERTAINTY.items()
    }
    texts = {key: interval_text(*of) for key, of in differences.items()}
    cells = [texts["NLL"], texts["ECE (points)"], "", texts["AURC"], texts["PAvPU (points)"]]
    rows.append(f"| {graph}, DropOut minus default | {' | '.join(cells)} |")
    return rows


def _mean(values: Sequence[float], digits: int) -> str:
    found = summarise(values)
    return f"{found.mean:.{digits}f} ± {found.deviation:.{digits}f}"


def _descriptive(one: Comparison, of: Callable[[Seen], float]) -> Difference:
    """A difference of scores that no single node has: over seeds alone, or over splits."""
    seeds = sorted(one.runs.keys() & one.others.keys())
    values = [of(one.runs[seed]) - of(one.others[seed]) for seed in seeds]
    if one.over != "splits":
        return seeds_alone(values)
    first = one.runs[seeds[0]]
    return resampled_t(values, tested=first["tested"], fitted=first["fitted"])
