"""``reproduce trust``: how far the probabilities of the default settings are to be trusted.

The calibration error of several splits is that of their test predictions together, pooled bin by
bin. Its floor is simulated in the same way: labels are drawn from the forecasts of every run.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from experiments.measures import BINS, COVERAGES
from experiments.plots import Curve, Panel, draw_figure
from experiments.rendering import Rendering, limits_of
from experiments.store import Record
from experiments.tables import Table, summarise
from experiments.target_runs import CellRuns, TargetRuns
from graphdrop.calibration.floor import simulate_forecasts
from graphdrop.calibration.temperature import EntropyTemperatureScaling
from graphdrop.metrics import reliability

if TYPE_CHECKING:
    from torch import Tensor

    from graphdrop.train import Trainer
    from graphdrop.train.result import Result

REPLICATES = 50
"""How often labels are drawn for the floor of a run."""
BASELINE = "GCN-DO"


def calibration_record(trainer: Trainer, result: Result) -> dict[str, Any]:
    """What a record keeps of a calibrated run, beside its scores."""
    test, validation = (
        trainer.predict(trainer.rows[part]).probabilities for part in ("test", "calibration")
    )
    return {
        "calibration": dict(result.calibration),
        "uncalibrated": {part: dict(scores) for part, scores in result.uncalibrated.items()},
        "warnings": list(result.warnings),
        "floor_gaps": floor_gaps(
            test,
            validation,
            trainer.config.seed,
            by_entropy=result.calibration["name"] == EntropyTemperatureScaling.name,
        ),
    }


def floor_gaps(
    test: Tensor, calibration: Tensor, seed: int, *, by_entropy: bool = False
) -> list[list[float]]:
    """Drawn labels' accuracy minus confidence, summed over each bin's nodes, ``[draws, bins]``.

    The calibrator is fitted again on labels drawn for the calibration nodes. Divided by the number
    of nodes, the sum of the absolute values of a row is one draw of the floor; rows of several runs
    may be added first.
    """
    pairs = simulate_forecasts(test, calibration, REPLICATES, seed, by_entropy=by_entropy)
    return [
        signed_gaps(reliability(forecast, labels, bins=BINS)._asdict()).tolist()
        for forecast, labels in pairs
    ]


def signed_gaps(bins: Mapping[str, Any]) -> NDArray[np.float64]:
    """Accuracy minus confidence of every bin, times the number of its nodes."""
    confidence, accuracy, examples = (
        np.array([0.0 if v is None else float(v) for v in bins[name]])
        for name in ("confidence", "accuracy", "examples")
    )
    gaps: NDArray[np.float64] = np.nan_to_num(accuracy - confidence) * examples
    return gaps


def pooled_ece(records: Sequence[Record]) -> tuple[float, float, float]:
    """ECE of the test predictions of all runs together; mean and 95th percentile of its floor."""
    bins = [record["curves"]["reliability"] for record in records]
    nodes = sum(sum(one["examples"]) for one in bins)
    error = np.abs(sum(map(signed_gaps, bins))).sum() / nodes
    drawn = sum(np.array(record["floor_gaps"]) for record in records)
    floor = np.abs(np.asarray(drawn)).sum(1) / nodes
    return float(error), float(floor.mean()), float(np.quantile(floor, 0.95))


def trust(found: TargetRuns) -> Rendering:
    """Accuracy, NLL and calibration of every row on every graph, and differences to GCN-DO."""
    columns = (
        "accuracy (%)",
        "balanced accuracy (%)",
        "NLL",
        "ECE of a run (%)",
        "its floor (%)",
        "ECE, pooled (%)",
        "its floor (%), 95th percentile",
        "ECE, uncalibrated (%)",
        "error AUROC, entropy",
        "error AUROC, mutual information",
        "seconds",
    )
    shown = [runs for runs in found.cells if runs.records]
    rows = [(f"{_graph(runs)}, {runs.cell.row}", _scores(runs)) for runs in shown]
    tables = {found.target: Table(found.title, columns, rows, found.note())}
    differences = [
        (f"{_graph(runs)}, {runs.cell.row} minus {BASELINE}", _differences(runs, found))
        for runs in shown
        if runs.cell.row != BASELINE
    ]
    title = f"{found.title}: differences with the same seeds and splits"
    names = ("accuracy (points)", "NLL", "balanced accuracy (points)")
    tables[f"{found.target}-difference"] = Table(title, names, differences, found.note())
    if not shown:
        return Rendering(tables)
    pictures = {found.target: _reliability(shown), f"{found.target}-refusal": _refusal(shown)}
    return Rendering(tables, pictures)


def _graph(runs: CellRuns) -> str:
    return Path(runs.cell.dataset).stem


def _scores(runs: CellRuns) -> list[tuple[str, ...]]:
    records = runs.records
    error, floor, high = (100.0 * value for value in pooled_ece(records))
    return [
        _spread([100.0 * r["test"]["accuracy"] for r in records], 2),
        _spread([100.0 * r["test"]["balanced_accuracy"] for r in records], 2),
        _spread([r["test"]["nll"] for r in records], 3),
        _spread([100.0 * r["test"]["ece"] for r in records], 2),
        _spread([100.0 * r["calibration"]["ece_floor"] for r in records], 2),
        (f"{error:.2f}",),
        (f"{floor:.2f}, {high:.2f}",),
        _spread([100.0 * r["uncalibrated"]["test"]["ece"] for r in records], 2),
        _spread(_known(records, "error_auroc_entropy"), 3),
        _spread(_known(records, "error_auroc_mutual_information"), 3),
        (f"{statistics.fmean(r['seconds'] for r in records):.0f}",),
    ]


def _known(records: Sequence[Record], name: str) -> list[float]:
    return [r["test"][name] for r in records if r["test"].get(name) is not None]


def _spread(values: Sequence[float], digits: int) -> tuple[str, ...]:
    if not values:
        return ("none",)
    found = summarise(values)
    if found.count == 1:
        return (f"{found.mean:.{digits}f}",)
    return (f"{found.mean:.{digits}f} ± {found.deviation:.{digits}f}",)


def _differences(runs: CellRuns, found: TargetRuns) -> list[tuple[str, ...]]:
    own = {r["seed"]: r["test"] for r in runs.records}
    others = {r["seed"]: r["test"] for r in found.at(BASELINE, runs.cell.column).records}
    both = [(own[seed], others[seed]) for seed in own if seed in others]
    return [
        _interval([100.0 * (a["accuracy"] - b["accuracy"]) for a, b in both], 2),
        _interval([a["nll"] - b["nll"] for a, b in both], 4),
        _interval([100.0 * (a["balanced_accuracy"] - b["balanced_accuracy"]) for a, b in both], 2),
    ]


def _interval(values: Sequence[float], digits: int) -> tuple[str, ...]:
    if len(values) < 2:
        return ("too few runs",)
    found = summarise(values)
    return (
        f"{found.mean:+.{digits}f}",
        f"95 % CI [{found.low:.{digits}f}, {found.high:.{digits}f}], {found.count} runs",
    )


def _refusal(shown: Sequence[CellRuns]) -> Any:
    """The error rate of the answers that are kept, by their share, a panel per graph."""
    coverages = [(k + 1) / COVERAGES for k in range(COVERAGES)]
    panels: dict[str, list[Curve]] = {}
    for runs in shown:
        courses = [record["curves"]["risk"] for record in runs.records]
        panels.setdefault(_graph(runs), []).append(Curve(runs.cell.row, coverages, courses))
    return draw_figure(
        [
            Panel(
                f"Refusal, {graph}",
                "share answered",
                "error rate",
                curves,
                y_limits=limits_of(curves, 1),
            )
            for graph, curves in panels.items()
        ],
        columns=3,
    )


def _reliability(shown: Sequence[CellRuns]) -> Any:
    """Reliability of the first method on every graph."""
    first = shown[0].cell.row
    middles = [(k + 0.5) / BINS for k in range(BINS)]
    panels = []
    for runs in shown:
        if runs.cell.row != first:
            continue
        bins = [record["curves"]["reliability"] for record in runs.records]
        accurate = [[float("nan") if v is None else v for v in one["accuracy"]] for one in bins]
        counts = [one["examples"] for one in bins]
        curve = Curve(first, middles, accurate, counts)
        title = f"Reliability, {_graph(runs)}"
        panels.append(Panel(title, "confidence", "accuracy", [curve], kind="reliability"))
    return draw_figure(panels, columns=3)
