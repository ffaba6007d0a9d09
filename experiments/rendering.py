"""Tables and figures of a target from its runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.measures import BINS, COVERAGES
from experiments.plots import Curve, Panel, draw_figure, save_figure
from experiments.store import Record
from experiments.tables import Table, beside_paper
from experiments.target_runs import CellRuns, TargetRuns, paper
from graphdrop.data import load_dataset
from graphdrop.data.sources import UnavailableError
from graphdrop.io.files import replace_file
from graphdrop.metrics import ThresholdAxis
from graphdrop.metrics.registry import ScoreMetric, metrics_by_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure


BASELINE = "GCN-DO"
Measured = Mapping[str, tuple[Callable[[Record], float], int]]
"""Columns of a table: the heading, a function of a record, and the number of digits."""
LAST_KL: Measured = {
    "KL of a rate at the end, sum over layers (nats)": (
        lambda r: r["kl"]["values"][-1] if r["kl"] else 0.0,
        4,
    )
}


@dataclass(frozen=True)
class Rendering:
    """Tables and figures by the name of their files."""

    tables: Mapping[str, Table] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)

    def write(self, folder: Path) -> list[Path]:
        """Write every table as Markdown, every figure as PNG."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, table in self.tables.items():
            paths.append(folder / f"{name}.md")
            replace_file(paths[-1], table.to_markdown().encode())
        for name, figure in self.figures.items():
            paths.append(save_figure(figure, folder / name))
        return paths


def accuracy(record: Record) -> float:
    """Test accuracy in percent."""
    return 100.0 * float(record["test"]["accuracy"])


def sampled(record: Record) -> Mapping[str, float]:
    """Scores on the test nodes as the network predicts with Monte Carlo samples."""
    scores: Mapping[str, float] = record.get("sampled", record)["test"]
    return scores


def metric_columns(*names: str) -> Measured:
    """Columns of a table for these metrics, titled and rounded as the registry of metrics says."""

    def column(metric: ScoreMetric) -> tuple[Callable[[Record], float], int]:
        factor = 100.0 if metric.percent else 1.0
        return lambda record: factor * sampled(record)[metric.name], metric.digits

    chosen = [metrics_by_name()[name] for name in names]
    return {metric.label: column(metric) for metric in chosen}


def accuracies(found: TargetRuns) -> Rendering:
    """Accuracy of every row on every dataset at every depth; and the generalization gap."""
    columns = found.columns()
    names = [in_words(column) for column in columns]

    def table(
        title: str, cell: Callable[[TargetRuns, str, str], tuple[str, ...]], but_for: str = ""
    ) -> Table:
        rows = [
            (row.name, [cell(found, row.name, column) for column in columns])
            for row in found.recipe.rows
            if row.name != but_for
        ]
        return Table(title, names, rows, found.note())

    gap = f"{found.title}: accuracy on training nodes minus that on test nodes (points)"
    tables = {found.target: table(found.title, cell_lines), f"{found.target}-gap": table(gap, _gap)}
    if BASELINE in {row.name for row in found.recipe.rows}:
        title = f"{found.title}: difference to {BASELINE} with the same seeds (points)"
        tables[f"{found.target}-difference"] = table(title, _difference, but_for=BASELINE)
    return Rendering(tables)


def cell_lines(found: TargetRuns, row: str, column: str) -> tuple[str, ...]:
    """Accuracy of a cell's runs beside the paper's."""
    runs = found.at(row, column)
    lines = beside_paper(runs.values(accuracy), found.printed(row, column))
    return (*lines, f"{runs.diverged} diverged") if runs.diverged else lines


def paired(found: TargetRuns, row: str, other: str, column: str) -> tuple[str, ...]:
    """Return a row's accuracy minus another's, seed by seed (points)."""
    own, others = (
        {record["seed"]: accuracy(record) for record in found.at(name, column).records}
        for name in (row, other)
    )
    return beside_paper([own[seed] - others[seed] for seed in own if seed in others], [])


def _gap(found: TargetRuns, row: str, column: str) -> tuple[str, ...]:
    return beside_paper(
        found.at(row, column).values(
            lambda record: 100 * (record["train"]["accuracy"] - record["test"]["accuracy"])
        ),
        [],
    )


def _difference(found: TargetRuns, row: str, column: str) -> tuple[str, ...]:
    return paired(found, row, BASELINE, column)


def learned_and_fixed(found: TargetRuns) -> Rendering:
    """Accuracy of every row; and the first row, whose rate is learned, minus each of the others."""
    learned, *fixed = (row.name for row in found.recipe.rows)
    columns, note = found.columns(), found.note()
    names = [in_words(column) for column in columns]
    accuracies_ = [
        (row, [cell_lines(found, row, column) for column in columns]) for row in (learned, *fixed)
    ]
    differences = [
        (f"learned minus {row}", [paired(found, learned, row, column) for column in columns])
        for row in fixed
    ]
    title = f"{found.title}: learned minus fixed with the same seeds (points)"
    return Rendering(
        {
            found.target: Table(found.title, names, accuracies_, note),
            f"{found.target}-difference": Table(title, names, differences, note),
        }
    )


def in_words(column: str) -> str:
    """A column as text, such as `cora, 4 layers`."""
    dataset, _, layers = column.rpartition("-")
    return f"{dataset}, {layers} layers"


def blocks(found: TargetRuns) -> Rendering:
    """Accuracy, seconds per epoch and peak memory by the number of blocks."""
    return scores_by_row(
        found,
        {
            "seconds per epoch": (lambda r: r["seconds_per_epoch"], 4),
            "peak memory (MB)": (lambda r: r["peak_megabytes"], 0),
        },
    )


def variants(found: TargetRuns, others: Measured | None = None) -> Rendering:
    """Accuracy, NLL, calibration and drop rate of each variant, and what else is asked for."""
    return scores_by_row(
        found,
        {
            **metric_columns("nll", "ece"),
            "mean drop rate": (_mean_drop, 3),
            **(others or {}),
        },
    )


def _mean_drop(record: Record) -> float:
    return statistics.fmean(rate for rate in record["drop_rates"] if rate is not None)


def scores_by_row(found: TargetRuns, others: Measured) -> Rendering:
    """A table with a line per cell: its accuracy and other scores."""
    rows = []
    for runs in found.cells:
        name = runs.cell.row if len(found.columns()) == 1 else runs.cell.name
        cells = [beside_paper(runs.values(of), digits=digits) for of, digits in others.values()]
        rows.append((name, [cell_lines(found, runs.cell.row, runs.cell.column), *cells]))
    names = ["accuracy (%)", *others]
    return Rendering({found.target: Table(found.title, names, rows, found.note())})


def uncertainty(found: TargetRuns) -> Rendering:
    """PAvPU over thresholds, reliability and risk-coverage; and the scores in a table."""
    scores = scores_by_row(
        found,
        {
            "accuracy, sampled (%)": (lambda r: 100 * sampled(r)["accuracy"], 2),
            **metric_columns("nll", "ece"),
            "PAvPU (%) at 0.5": (lambda r: 100 * sampled(r)["pavpu"], 2),
            **metric_columns("aurc"),
        },
    )
    panels = []
    for column in found.columns():
        shown = [runs for runs in found.cells if runs.cell.column == column and runs.records]
        if shown:
            where = f", {in_words(column)}" if len(found.columns()) > 1 else ""
            panels += _uncertainty_panels(shown, found.axis, where)
    drawn = figure_of(found, panels, columns=3)
    if found.axis is not ThresholdAxis.LARGEST:
        drawn = {f"{name}-{found.axis.value}": figure for name, figure in drawn.items()}
    return Rendering(scores.tables, drawn)


_AXIS_LABELS = {
    ThresholdAxis.LARGEST: "threshold (fraction of the largest entropy)",
    ThresholdAxis.LOG_CLASSES: "threshold (fraction of log classes)",
    ThresholdAxis.RANGE: "threshold (smallest to largest entropy)",
}


def _uncertainty_panels(shown: Sequence[CellRuns], axis: ThresholdAxis, where: str) -> list[Panel]:
    # The paper shows the upper half of its axis; nothing is hidden on the others.
    first = 10 if axis is ThresholdAxis.LARGEST else 0
    thresholds = [k / 20 for k in range(first, 21)]
    middles = [(k + 0.5) / BINS for k in range(BINS)]
    coverages = [(k + 1) / COVERAGES for k in range(COVERAGES)]
    pavpu, reliability, risk = [], [], []
    for runs in shown:
        name = runs.cell.row
        curves = [record["curves"] for record in runs.records]
        values = [one["pavpu"][axis.value][first:] for one in curves]
        pavpu.append(Curve(name, thresholds, values))
        bins = [one["reliability"] for one in curves]
        accurate = [[math.nan if v is None else v for v in one["accuracy"]] for one in bins]
        counts = [one["examples"] for one in bins]
        reliability.append(Curve(name, middles, accurate, counts))
        risk.append(Curve(name, coverages, [one["risk"] for one in curves]))
    return [
        Panel(f"PAvPU{where}", _AXIS_LABELS[axis], "PAvPU", pavpu, y_limits=limits_of(pavpu, 1)),
        Panel(f"Reliability{where}", "confidence", "accuracy", reliability, kind="reliability"),
        Panel(f"Risk{where}", "coverage", "error rate", risk, y_limits=limits_of(risk, 1)),
    ]


def limits_of(curves: Sequence[Curve], most: float) -> tuple[float, float]:
    """Axis limits from the values of the runs, with a margin, within 0 and `most`."""
    values = [v for curve in curves for run in curve.runs for v in run if not math.isnan(v)]
    low, high = min(values), max(values)
    margin = 0.05 * max(high - low, 0.02 * most)
    return max(0.0, low - margin), min(most, high + margin)


def smoothing(found: TargetRuns) -> Rendering:
    """Normalized total variation of each hidden layer during training, a panel per method."""
    panels = []
    for runs in found.cells:
        courses = [record["total_variation"] for record in runs.records]
        if not courses:
            continue
        curves = [
            _course(
                f"hidden layer {layer + 1}",
                [(course["epochs"], course["layers"][layer]) for course in courses],
            )
            for layer in range(runs.cell.layers - 1)
        ]
        panels.append(Panel(runs.cell.row, "epoch", "total variation / norm", curves))
    return Rendering(figures=figure_of(found, panels))


def _course(name: str, runs: Sequence[tuple[Sequence[int], Sequence[float | None]]]) -> Curve:
    """A value over epochs, interpolated for runs that were measured at other epochs.

    Between two epochs that a run knows it is drawn on the line through both; after its end it has
    no value.
    """
    epochs = sorted({epoch for own, _ in runs for epoch in own})
    by_run = [
        np.interp(epochs, own, np.array(values, dtype=float), math.nan, math.nan).tolist()
        for own, values in runs
    ]
    return Curve(name, epochs, by_run)


def local(found: TargetRuns) -> Rendering:
    """The scores of global and local rates, and the course of their KL to its end."""
    curves = []
    for runs in found.cells:
        courses = [record["kl"] for record in runs.records if record["kl"]]
        if courses:
            values = [(course["epochs"], course["values"]) for course in courses]
            curves.append(_course(runs.cell.row, values))
    label = "KL of a rate, sum over layers (nats)"
    panels = [Panel("Course of the KL", "epoch", label, curves)] if curves else []
    return Rendering(variants(found, LAST_KL).tables, figure_of(found, panels))


def figure_of(
    found: TargetRuns, panels: Sequence[Panel], columns: int | None = None
) -> dict[str, Figure]:
    """The target's figure by its name; none without panels."""
    if not panels:
        return {}
    note = f"Mean and 95 % interval over seeds. {found.note()}"
    figure = draw_figure(panels, columns=columns, note=note, quick=found.quick)
    return {found.target: figure}


def datasets() -> Rendering:
    """Table 4: the datasets, as they are loaded, beside what the paper prints of them."""
    printed = paper()["table4"]
    names = ("classes", "nodes", "edges", "features")
    rows = []
    for dataset, counts in printed.items():
        try:
            summary = load_dataset(dataset).summary
            ours = [f"{getattr(summary, name):,}" for name in names]
        except UnavailableError:
            ours = ["not here"] * len(names)
        theirs = [f"paper {counts[name]:,}" for name in names]
        rows.append((dataset, list(zip(ours, theirs, strict=True))))
    note = (
        "Edges are undirected, without repeats and self-loops; the paper counts half of the stored "
        "entries, for Cora-ML all of them."
    )
    return Rendering({"table4": Table("Table 4: datasets", names, rows, note)})
