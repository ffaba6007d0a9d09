"""The tables and the figure of ``reproduce ood --recipe auto``: every method by every score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from experiments.ood_scores import CLASS, NOISE, SHIFT
from experiments.plots import Dots, draw_dots
from experiments.recipe import graph_name
from experiments.rendering import Rendering
from experiments.tables import Table, signed
from experiments.target_runs import TargetRuns

Numbers = NDArray[np.float64]

RESAMPLED = 2000
OURS, RULE = "GCN-BBGDC", "energy_all"
"""The score of GCN-BBGDC that is compared was fixed before any run: that of ``answer.energy``."""
SCORES = {
    "max_probability": "highest probability",
    "entropy": "entropy",
    "mutual_information": "mutual information",
    "vacuity": "vacuity",
    "energy_node": "energy, node",
    "energy_neighborhood": "energy, neighborhood",
    "energy_cluster": "energy, cluster",
    "energy_all": "energy, all scales",
}
CASES = {
    CLASS: "a class left out",
    NOISE: "features replaced by noise",
    SHIFT: "columns of features shifted",
}


class Row(NamedTuple):
    """A method of the table: a row of the recipe, and how its networks predict."""

    name: str
    method: str
    view: str


ROWS = (
    Row(OURS, OURS, "sampled"),
    Row("Monte Carlo DropOut", "GCN-DO", "sampled"),
    Row("ensemble of 5", "GCN-DO", "ensemble"),
    Row("plain softmax", "GCN-DO", "off"),
)
PLAIN = ROWS[3]


def unfamiliar(found: TargetRuns) -> Rendering:
    """AUROC of every method by every score, by kind of perturbation; differences; accuracy."""
    columns = [column for column in found.columns() if _is_complete(found, column)]
    names = [graph_name(column.rpartition("-")[0]) for column in columns]
    note = found.note()
    if columns:
        note = (
            "AUROC (%): mean over classes and seeds; 95 % interval by drawing classes and seeds "
            f"anew. {note}"
        )
    tables = {}
    for case, words in CASES.items():
        rows = [
            (f"{row.name}, {SCORES[score]}", _line(found, columns, row, score, case))
            for row in ROWS
            for score in SCORES
            if columns and _areas(found, columns[0], row, score, case) is not None
        ]
        name = found.target if case == CLASS else f"{found.target}-{case}"
        tables[name] = Table(f"{found.title}: {words}", [*names, "mean"], rows, note)
    tables[f"{found.target}-difference"] = Table(
        f"{found.title}: {OURS}, {SCORES[RULE]}, minus others (points), a class left out",
        [*names, "mean"],
        _differences(found, columns) if columns else [],
        note,
    )
    if not columns:
        return Rendering(tables)
    return Rendering(tables, {found.target: _figure(found, columns, names)})


def _is_complete(found: TargetRuns, column: str) -> bool:
    """Whether every class of a graph was left out of every kind of network."""
    cells = [found.at(row.method, column) for row in ROWS]
    return all(len(runs.records) == len(runs.cell.configs) for runs in cells)


def _areas(found: TargetRuns, column: str, row: Row, score: str, case: str) -> Numbers | None:
    """AUROC in percent, ``[classes, networks]``."""
    records = found.at(row.method, column).records
    by_class = [one["unfamiliar"][case][row.view].get(score) for one in records]
    if any(one is None for one in by_class):
        return None
    return 100.0 * np.array(by_class, dtype=float)


def resampled(values: Sequence[Numbers]) -> tuple[float, float]:
    """95 % interval of the mean over graphs, by drawing classes and seeds of each anew."""
    draw = np.random.default_rng(0)
    means = np.zeros(RESAMPLED)
    for one in values:
        classes, seeds = one.shape
        rows = draw.integers(classes, size=(RESAMPLED, classes))
        columns = draw.integers(seeds, size=(RESAMPLED, seeds))
        means += one[rows[:, :, None], columns[:, None, :]].mean((1, 2)) / len(values)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def _line(
    found: TargetRuns, columns: Sequence[str], row: Row, score: str, case: str
) -> list[tuple[str, ...]]:
    values = [_areas(found, column, row, score, case) for column in columns]
    known = [one for one in values if one is not None]
    cells = [_cell([one]) if one is not None else ("none",) for one in values]
    return [*cells, _cell(known) if len(known) == len(values) else ("none",)]


def _cell(values: Sequence[Numbers]) -> tuple[str, ...]:
    mean = float(np.mean([one.mean() for one in values]))
    low, high = resampled(values)
    if len(values) > 1:
        return f"{mean:.2f}", f"[{low:.2f}, {high:.2f}]"
    deviation = float(values[0].std(ddof=1)) if values[0].size > 1 else math.nan
    return f"{mean:.2f} ± {deviation:.2f}", f"[{low:.2f}, {high:.2f}]"


def _differences(
    found: TargetRuns, columns: Sequence[str]
) -> list[tuple[str, Sequence[tuple[str, ...]]]]:
    others = [(PLAIN, "energy_node"), *((row, RULE) for row in ROWS[1:]), (PLAIN, "entropy")]
    rows: list[tuple[str, Sequence[tuple[str, ...]]]] = []
    for row, score in others:
        gaps = []
        for column in columns:
            own = _areas(found, column, ROWS[0], RULE, CLASS)
            other = _areas(found, column, row, score, CLASS)
            if own is not None and other is not None:  # every view has these scores
                gaps.append(own - other)  # an ensemble is compared with every network
        cells = [_gap([one]) for one in gaps]
        rows.append((f"minus {row.name}, {SCORES[score]}", [*cells, _gap(gaps)]))
    return rows


def _gap(values: Sequence[Numbers]) -> tuple[str, ...]:
    low, high = resampled(values)
    mean = float(np.mean([one.mean() for one in values]))
    return signed(mean, 2), f"[{signed(low, 2)}, {signed(high, 2)}]"


def _figure(found: TargetRuns, columns: Sequence[str], names: Sequence[str]) -> Figure:
    shown = [
        (ROWS[0], RULE),
        (ROWS[0], "entropy"),
        (ROWS[1], RULE),
        (ROWS[2], RULE),
        (PLAIN, RULE),
        (PLAIN, "energy_node"),
        (PLAIN, "entropy"),
    ]
    dots = []
    for row, score in shown:
        areas = [_areas(found, column, row, score, CLASS) for column in columns]
        values = [math.nan if one is None else float(one.mean()) for one in areas]
        dots.append(Dots(f"{row.name}, {SCORES[score]}", values))
    return draw_dots(names, dots, "AUROC (%), a class left out", quick=found.quick)
