"""Tables and figures of extensions of the paper: general form, amortized rates, OOD."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from experiments.edge_rates import KINDS
from experiments.recipe import Cell
from experiments.rendering import (
    LAST_KL,
    Rendering,
    accuracy,
    metric_columns,
    scores_by_row,
)
from experiments.store import Record
from experiments.tables import Table, beside_paper, summarise
from experiments.target_runs import CellRuns, TargetRuns

_SCORES = {
    "max_probability": "highest probability",
    "entropy": "entropy",
    "mutual_information": "mutual information",
}


def general(found: TargetRuns) -> Rendering:
    """Accuracy, NLL, calibration error and time by the number of shared draws."""
    return scores_by_row(
        found,
        {
            **metric_columns("nll", "ece"),
            "seconds per epoch": (lambda r: r["seconds_per_epoch"], 4),
        },
    )


def amortised(found: TargetRuns) -> Rendering:
    """Accuracy and last KL of global, free and amortised rates; what the amortised ones learned."""
    compared = scores_by_row(
        found,
        {**metric_columns("nll"), **LAST_KL},
    )
    learned = [runs for runs in found.cells if _is_amortised(runs.cell)]
    title = f"{found.title}: what the amortised rates keep, KL averaged"
    columns = [f"keep, {kind}" for kind in KINDS] + ["kept more within than between"]
    rows = [
        (f"{runs.cell.dataset}, layer {layer + 1}", _learned(runs, layer))
        for runs in learned
        for layer in range(runs.cell.layers)
    ]
    edges = Table(title, columns, rows, found.note())
    return Rendering({**compared.tables, f"{found.target}-edges": edges})


def _is_amortised(cell: Cell) -> bool:
    config = cell.configs[0]
    amortised_ = config.model.method == "GCN-BBGDC-AMORTISED"
    return amortised_ and config.objective.kl_reduction == "mean"


def _learned(runs: CellRuns, layer: int) -> list[tuple[str, ...]]:
    found = [record["edge_rates"]["layers"][layer] for record in runs.records]
    rates = [[one[kind]["mean"] for one in found] for kind in KINDS]
    return [
        beside_paper(values, digits=3) for values in (*rates, [one["separation"] for one in found])
    ]


def out_of_distribution(found: TargetRuns) -> Rendering:
    """Out-of-distribution detection: AUROC and AUPR for a class left out of training."""
    name, title = found.target, found.title
    note = found.note()
    if any(runs.records for runs in found.cells):
        note = (
            "Every class is left out in turn; a run is a class and a seed. The deviation is over "
            f"runs, the interval that of the mean over classes. {note}"
        )
    datasets = found.recipe.datasets
    rows = [row.name for row in found.recipe.rows]
    tables = {
        name: Table(f"{title}: AUROC (%)", datasets, _detected(found, "auroc"), note),
        f"{name}-aupr": Table(f"{title}: AUPR (%)", datasets, _detected(found, "aupr"), note),
        f"{name}-accuracy": Table(
            f"{title}: accuracy (%) on the known classes",
            datasets,
            [(row, _over_datasets(found, row, accuracy)) for row in rows],
            note,
        ),
    }
    return Rendering(tables)


def _detected(found: TargetRuns, area: str) -> list[tuple[str, Sequence[tuple[str, ...]]]]:
    return [
        (f"{row.name}, {_SCORES[score]}", _over_datasets(found, row.name, _area(score, area)))
        for row in found.recipe.rows
        for score in _scores_of(found, row.name)
    ]


def _scores_of(found: TargetRuns, row: str) -> tuple[str, str]:
    """A single pass has no mutual information; it is usually judged by its highest probability."""
    first = next(runs.cell.configs[0] for runs in found.cells if runs.cell.row == row)
    members = getattr(first, "members", 1)
    if members == 1 and first.predict.masks in ("off", "expected"):
        return "max_probability", "entropy"
    return "entropy", "mutual_information"


def _area(score: str, area: str) -> Callable[[Record], float]:
    return lambda record: 100.0 * float(record["detection"][score][area])


def _over_datasets(
    found: TargetRuns, row: str, of: Callable[[Record], float]
) -> list[tuple[str, ...]]:
    return [_over_classes(found.at(row, column), of) for column in found.columns()]


def _over_classes(runs: CellRuns, of: Callable[[Record], float]) -> tuple[str, ...]:
    """Mean ± deviation over classes and seeds; the interval is that of the classes' mean."""
    if not runs.records:
        return beside_paper([])
    by_seed: dict[int, list[float]] = {}
    for record in runs.records:
        by_seed.setdefault(record["seed"], []).append(of(record))
    all_ = summarise(runs.values(of))
    over_seeds = summarise([statistics.fmean(values) for values in by_seed.values()])
    if all_.count == 1:
        return f"{all_.mean:.2f}", "1 run"
    runs_ = f"{all_.count} runs, {over_seeds.count} seed{'s' * (over_seeds.count > 1)}"
    if over_seeds.count > 1:
        runs_ = f"95 % CI [{over_seeds.low:.2f}, {over_seeds.high:.2f}], {runs_}"
    return f"{all_.mean:.2f} ± {all_.deviation:.2f}", runs_
