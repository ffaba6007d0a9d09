"""``reproduce splits``: the accuracy over many random splits, and where the paper's lies in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from experiments.plots import draw_distributions
from experiments.rendering import Rendering, accuracy
from experiments.tables import Table, summarise
from experiments.target_runs import CellRuns, TargetRuns, paper

STEP = 0.25
"""Of the figure, in points."""


class Spread(NamedTuple):
    """The test accuracy (%) of one method at one depth over splits."""

    row: str
    layers: int
    planned: int
    values: list[float]
    printed: float
    """The paper's mean."""

    @property
    def above(self) -> int:
        """Splits at or above the paper's mean, at the digits that it is printed with."""
        return sum(round(value, 2) >= self.printed for value in self.values)

    def quantile(self, share: float) -> float:
        """A quantile over splits, between neighbors linear."""
        return float(np.quantile(self.values, share))


def spreads(found: TargetRuns) -> Iterator[Spread]:
    """Every cell, whether run or not."""
    for runs in found.cells:
        yield _spread(runs)


def _spread(runs: CellRuns) -> Spread:
    cell = runs.cell
    printed = paper()["table1"][cell.row][cell.column][0]
    return Spread(cell.row, cell.layers, len(cell.configs), runs.values(accuracy), printed)


COLUMNS = (
    *("splits", "mean ± deviation", "5 %", "median", "95 %"),
    *("the paper's mean", "splits at or above it"),
)


def cells(one: Spread) -> list[str]:
    """What a table says of a method at one depth."""
    if len(one.values) < 2:
        return [str(len(one.values)), *["not run"] * 4, f"{one.printed:.2f}", "not run"]
    summary = summarise(one.values)
    count = len(one.values)
    return [
        f"{count}" if count == one.planned else f"{count} of {one.planned}",
        f"{summary.mean:.2f} ± {summary.deviation:.2f}",
        *(f"{one.quantile(share):.2f}" for share in (0.05, 0.5, 0.95)),
        f"{one.printed:.2f}",
        f"{one.above} of {count} ({100.0 * one.above / count:.0f} %)",
    ]


def splits(found: TargetRuns) -> Rendering:
    """A table of the distributions, and their figure."""
    every = list(spreads(found))
    rows = [(f"{one.row}, {one.layers} layers", [(cell,) for cell in cells(one)]) for one in every]
    note = (
        "Test accuracy (%) over random splits; the seed of a run is that of its split, so that the "
        "deviation has other splits and other first weights in it. Splits of one graph share "
        f"nodes. {found.note()}"
    )
    table = Table(found.title, COLUMNS, rows, note)
    panels = {
        f"{one.row}, {one.layers} layers": (one.values, one.printed) for one in every if one.values
    }
    if not panels:
        return Rendering({found.target: table})
    figure = draw_distributions(panels, "test accuracy (%)", width=STEP, quick=found.quick)
    return Rendering({found.target: table}, {found.target: figure})


def passage(found: TargetRuns) -> str:
    """The passage of docs/evidence.md: the table, and a sentence for every depth of the method."""
    every = list(spreads(found))
    if not any(len(one.values) > 1 for one in every):
        return f"Not run yet: none of {sum(one.planned for one in every)} planned runs is made."
    lines = [f"| | {' | '.join(COLUMNS)} |", f"|{'---|' * (len(COLUMNS) + 1)}"]
    lines += [f"| {one.row}, {one.layers} layers | {' | '.join(cells(one))} |" for one in every]
    lines.append("")
    first = found.recipe.rows[0].name
    lines += [f"- {_sentence(one)}" for one in every if one.row == first and len(one.values) > 1]
    return "\n".join(lines)


def _sentence(one: Spread) -> str:
    low, high = (one.quantile(share) for share in (0.05, 0.95))
    count = len(one.values)
    some = "" if count == one.planned else f" (of {one.planned} planned)"
    return (
        f"**{one.row} with {one.layers} layers**: nine in ten of {count} splits{some} lie between "
        f"{low:.2f} and {high:.2f} %; the paper's {one.printed:.2f} % is reached on {one.above} of "
        f"them, {100.0 * one.above / count:.0f} %."
    )
