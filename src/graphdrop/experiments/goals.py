"""Figures that the second edition was to reach, beside what was measured and what was tried."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from graphdrop.experiments.rivals_page import goal_rows
from graphdrop.experiments.store import Store
from graphdrop.experiments.target_runs import CellRuns, stored
from graphdrop.report.tables import signed, summarise


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


def goals(store: Store) -> str:
    """A table of all goals."""
    lines = [
        "| figure | asked | measured | reached |",
        "|---|---|---|---|",
        *(_cells_of_paper(store, *table) for table in TABLES),
        *(_accuracy(store, goal) for goal in ACCURACIES),
        *goal_rows(stored("rivals-auto", store)),
    ]
    return "\n".join(lines)


def _percent(runs: CellRuns) -> list[float]:
    return [100.0 * value for value in runs.values(lambda record: record["test"]["accuracy"])]


def _cells_of_paper(
    store: Store, what: str, target: str, columns: Sequence[str], rows: Sequence[str]
) -> str:
    found = stored(f"{target}-tuned", store)
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
    runs = stored(goal.recipe, store).at(goal.row, goal.column)
    asked = "reported" if goal.asked is None else f"{goal.asked:.1f} %"
    planned = len(runs.cell.configs)
    if len(runs.records) < planned:
        done = f"{len(runs.records)} of {planned} runs, unfinished" if runs.records else "not run"
        return f"| {goal.what} | {asked} | {done} | no |"
    ours = summarise(_percent(runs))
    reached = "" if goal.asked is None else _yes(round(ours.mean, 1) >= goal.asked)
    shown = f"{ours.mean:.2f} ± {ours.deviation:.2f} %, {ours.count} runs"
    return f"| {goal.what} | {asked} | {shown} | {reached} |"


def _yes(reached: bool) -> str:
    return "yes" if reached else "no"
