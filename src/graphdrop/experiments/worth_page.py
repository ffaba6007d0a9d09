"""The passage of docs/evidence.md on the controlled experiment, made from the records of its runs.

    python -m graphdrop.experiments.worth_page docs/evidence.md results

writes it between two marks; a test compares it with the committed records.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from graphdrop.experiments.factors import Factor
from graphdrop.experiments.recipe import read_recipe
from graphdrop.experiments.store import Store
from graphdrop.experiments.target_runs import TargetRuns, in_store
from graphdrop.experiments.worth import DIGITS, interval_text
from graphdrop.experiments.worth_comparisons import (
    Comparison,
    compared,
    core_hours,
    corrected,
    planned_runs,
)
from graphdrop.util.files import replace_file

BEGIN = "<!-- made by graphdrop.experiments.worth_page: begin -->"
END = "<!-- made by graphdrop.experiments.worth_page: end -->"
SIGNIFICANT = 0.05


def committed(folder: str | Path) -> TargetRuns:
    """The runs of the controlled experiment in a folder of results."""
    recipe, store = read_recipe("worth-auto"), Store(folder)
    cells = [in_store(cell, store, watch=False) for cell in recipe.cells()]
    return TargetRuns("worth", recipe, "auto", False, cells)


def passage(found: TargetRuns) -> str:
    """What has been run and what not, and a table of every factor that has runs."""
    graphs = found.recipe.graphs
    done = sum(len(runs.records) for runs in found.cells)
    total = planned_runs(found, graphs)
    if not done:
        return f"None of the {total} planned runs has been made yet."
    by_factor = {
        factor.name: [one for graph in graphs for one in compared(found, factor, graph)]
        for factor in found.recipe.factors
    }
    lines = [
        f"{done} of {total} planned runs are made, in {core_hours(found):.1f} core-hours.",
        "",
        "| factor | run on | not run yet |",
        "|---|---|---|",
    ]
    lines += [_progress(factor, by_factor[factor.name], graphs) for factor in found.recipe.factors]
    for factor in found.recipe.factors:
        made = [one for one in by_factor[factor.name] if one.differences]
        if made:
            lines += ["", *_table(factor, made, graphs)]
    return "\n".join(lines)


def _progress(factor: Factor, made: Sequence[Comparison], graphs: Sequence[str]) -> str:
    arms = {graph: [arm for arm in factor.arms if arm.is_of(graph)] for graph in graphs}
    there = {
        graph: [one.arm.name for one in made if one.graph == graph and one.differences]
        for graph in graphs
    }
    run = [
        graph if len(names) == len(arms[graph]) else f"{graph} ({', '.join(names)})"
        for graph, names in there.items()
        if names
    ]
    missing = [graph for graph, names in there.items() if len(names) < len(arms[graph])]
    return f"| {factor.name} | {', '.join(run) or 'none'} | {', '.join(missing) or 'none'} |"


def _table(factor: Factor, made: Sequence[Comparison], graphs: Sequence[str]) -> list[str]:
    p_values = corrected(made, factor, graphs)
    lines = [
        f"**{factor.title[0].upper()}{factor.title[1:]}.**",
        "",
        "| arm | graph | seeds | accuracy (points) | p | NLL | p |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in made:
        cells = []
        for score, difference in one.differences.items():
            cells.append(interval_text(difference, DIGITS[score]))
            p_value = p_values.get((one.arm.name, one.graph, score))
            cells.append("descriptive" if p_value is None else _p_text(p_value))
        seeds = len(one.runs.keys() & one.others.keys())
        against = "" if one.arm.against == "base" else f", against {one.arm.against}"
        lines.append(f"| {one.arm.name}{against} | {one.graph} | {seeds} | {' | '.join(cells)} |")
    shown = [key for key, p_value in p_values.items() if p_value < SIGNIFICANT]
    planned = factor.planned(graphs)
    lines += [
        "",
        f"Of {planned} primary comparisons {len(p_values)} are made. After Holm's correction over "
        f"all {planned}, {len(shown)} of them are beyond chance at a level of 0.05.",
    ]
    return lines


def _p_text(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def with_passage(page: str, found: TargetRuns) -> str:
    """A page with the passage between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the page has no place for the passage; it takes the marks {BEGIN}.")
    return f"{before}{BEGIN}\n{passage(found)}\n{END}{after}"


def main(page: str, results: str) -> None:
    """Write the passage into a page."""
    path = Path(page)
    text = with_passage(path.read_text(encoding="utf-8"), committed(results))
    replace_file(path, text.encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
