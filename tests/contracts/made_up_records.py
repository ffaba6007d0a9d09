"""Records as runs leave them, with made-up figures, and stores filled with them."""

from __future__ import annotations

from typing import Any

from experiments.edge_rates import KINDS
from experiments.keys import run_key, settled
from experiments.left_out_class import LeftOut
from experiments.measures import AXES, BINS, COVERAGES
from experiments.recipe import read_recipe
from experiments.store import Store
from experiments.target_runs import TargetRuns, in_store


def record_of(config, accuracy: float, *, watch: bool = False) -> dict[str, Any]:
    """The record of a run of this accuracy."""
    scores = {"accuracy": accuracy, "nll": 0.7, "ece": 0.1, "pavpu": 0.6, "aurc": 0.07}
    record: dict[str, Any] = {
        "key": run_key(config, watch=watch),
        "seed": config.seed,
        "config": settled(config),
        "data": "0123456789abcdef",
        "versions": {"graphdrop": "0", "torch": "0"},
        "drop_rates": [0.4, None, 0.2],
        "train": scores,
        "validation": scores,
        "test": scores,
        "curves": {
            "pavpu": {axis.value: [k / 20 * accuracy for k in range(21)] for axis in AXES},
            "reliability": {
                "confidence": [None] * BINS,
                "accuracy": [None, *[accuracy] * (BINS - 1)],
                "examples": [0, *[3] * (BINS - 1)],
            },
            "risk": [1 - accuracy] * COVERAGES,
        },
        "kl": {"epochs": [1, 2], "values": [0.5, 0.1 * accuracy]},
        "seconds_per_epoch": 0.0123,
        "peak_megabytes": 512.0,
        "seconds": 60.0,
    }
    if config.model.method == "GCN-DO":
        record["sampled"] = {"test": scores | {"accuracy": accuracy / 2}}
    if config.model.method == "GCN-BBGDC-AMORTISED":
        spread = {"mean": 0.5 * accuracy, "quantiles": [k / 10 * accuracy for k in range(11)]}
        layer = dict.fromkeys(KINDS, spread) | {"separation": 0.6}
        record["edge_rates"] = {"layers": [layer] * config.model.layers}
    if isinstance(config, LeftOut):
        scores = ("max_probability", "entropy", "mutual_information")
        record["detection"] = {score: {"auroc": accuracy, "aupr": 0.3} for score in scores}
    if watch:
        layers = [[0.5, 0.6, None] for _ in range(config.model.layers - 1)]
        record["total_variation"] = {"epochs": [10, 20, 30], "layers": layers}
    return record


def fill(store: Store, target: str, *, quick: bool = False, runs: int = 2) -> None:
    """Add every run of a target, a little better from cell to cell."""
    recipe, known = read_recipe(f"{target}-paper"), store.records()
    for number, cell in enumerate(recipe.cells(runs=runs, quick=quick)):
        for config in cell.configs:
            record = record_of(config, 0.7 + number / 1000, watch=recipe.watch)
            if record["key"] not in known:
                store.append(record)


def found_in(store: Store, target: str, **options: Any) -> TargetRuns:
    """What rendering gets of a target with two seeds a cell."""
    recipe = read_recipe(f"{target}-paper")
    cells = [in_store(cell, store, watch=recipe.watch) for cell in recipe.cells(runs=2)]
    return TargetRuns(target, recipe, "paper", False, cells, **options)
