"""Figures that the second edition was to reach, beside what was measured and what was tried."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from graphdrop.experiments.recipe import read_recipe
from graphdrop.experiments.store import Store
from graphdrop.experiments.target_runs import CellRuns, TargetRuns, in_store
from graphdrop.experiments.worth_page import GRAPHS, Made
from graphdrop.report.tables import signed, summarise

FOUR = ("cora", "citeseer", "cora_ml", "pubmed")


class Goal(NamedTuple):
    """An accuracy to reach: the cell of a recipe, in percent."""

    what: str
    recipe: str
    column: str
    row: str
    asked: float | None
    """None where it is only reported."""


ACCURACIES = (
    *(
        Goal(f"GRAND's figure on {name}, {row}", "grand-tuned", f"{graph}-2", row, asked)
        for graph, name, asked in (
            ("cora", "Cora", 85.4),
            ("citeseer", "Citeseer", 75.4),
            ("pubmed", "PubMed", 82.7),
        )
        for row in ("nodes, fixed at 0.5", "nodes, learned", "connections, learned")
    ),
    Goal("PPNP's splits of Cora-ML, APPNP-BBGDC", "ppnp-auto", "cora_ml-0", "APPNP-BBGDC", 85.1),
    Goal("PPNP's splits of Cora-ML, GCN-BBGDC", "ppnp-auto", "cora_ml-0", "GCN-BBGDC", None),
)
TABLES = (
    (
        "table 1, learned rates on Cora and Citeseer",
        "table1",
        ("cora-2", "cora-4", "citeseer-2", "citeseer-4"),
        ("GCN-BBDE", "GCN-BBGDC"),
    ),
    (
        "table 2",
        "table2",
        ("cora-4", "citeseer-4"),
        ("GCN-BDE-ARM", "GCN-BBDE-ARM", "GCN-BBGDC-ARM"),
    ),
    ("table 3", "table3", ("cora-4",), ("2 blocks", "16 blocks", "32 blocks")),
)


def goals(folder: Path, made: Made) -> str:
    """A table of all goals."""
    store = Store(folder)
    lines = [
        "| figure | asked | measured | reached |",
        "|---|---|---|---|",
        *(_cells_of_paper(store, *table) for table in TABLES),
        *(_accuracy(store, goal) for goal in ACCURACIES),
        _likelihood(made),
    ]
    return "\n".join(lines)


def _found(store: Store, name: str) -> TargetRuns:
    recipe = read_recipe(name)
    cells = [in_store(cell, store, watch=recipe.watch) for cell in recipe.cells()]
    target, _, kind = name.partition("-")
    return TargetRuns(target, recipe, kind, False, cells)


def _percent(runs: CellRuns) -> list[float]:
    return [100.0 * value for value in runs.values(lambda record: record["test"]["accuracy"])]


def _cells_of_paper(
    store: Store, what: str, target: str, columns: Sequence[str], rows: Sequence[str]
) -> str:
    found = _found(store, f"{target}-tuned")
    away = []
    for column in columns:
        for row in rows:
            asked = found.printed(row, column)
            away.append(statistics.fmean(_percent(found.at(row, column))) - asked[0])
    reached = sum(one >= 0.0 for one in away)
    most = "" if reached == len(away) else f", the furthest {signed(min(away), 2)} points away"
    return (
        f"| {what}: cells at the paper's mean | {len(away)} | {reached}{most} "
        f"| {_yes(reached == len(away))} |"
    )


def _accuracy(store: Store, goal: Goal) -> str:
    runs = _found(store, goal.recipe).at(goal.row, goal.column)
    asked = "reported" if goal.asked is None else f"{goal.asked:.1f} %"
    planned = len(runs.cell.configs)
    if len(runs.records) < planned:
        done = f"{len(runs.records)} of {planned} runs, unfinished" if runs.records else "not run"
        return f"| {goal.what} | {asked} | {done} | no |"
    ours = summarise(_percent(runs))
    reached = "" if goal.asked is None else _yes(round(ours.mean, 1) >= goal.asked)
    shown = f"{ours.mean:.2f} ± {ours.deviation:.2f} %, {ours.count} runs"
    return f"| {goal.what} | {asked} | {shown} | {reached} |"


def _likelihood(made: Made) -> str:
    """On how many graphs the calibrated NLL of the default is not above that of DropOut alone."""
    arms = {one.graph: one for one in made.by_factor["sharing"] if one.arm.name == "none"}
    what = "calibrated NLL at most that of Monte Carlo DropOut, four graphs"
    if not arms:
        return f"| {what} | 4 | not run | no |"
    below = [graph for graph in FOUR if graph in arms and arms[graph].differences["nll"].mean >= 0]
    names = ", ".join(GRAPHS[graph] for graph in FOUR if graph in arms)
    return f"| {what} | 4 | {len(below)} of those run ({names}) | {_yes(len(below) == len(FOUR))} |"


def _yes(reached: bool) -> str:
    return "yes" if reached else "no"
