"""Figures that were to be reached, beside what was measured and what was tried."""

from __future__ import annotations

from typing import NamedTuple

from experiments.paper_cells import cell_goals, percent
from experiments.rivals_page import goal_rows
from experiments.store import Store
from experiments.tables import summarise
from experiments.target_runs import stored


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
    Goal("64 layers, GCNII-BBGDC on Cora", "gcnii-tuned", "cora-64", "GCNII-BBGDC", 85.0),
    Goal("PPNP's splits of Cora-ML, APPNP-BBGDC", "ppnp-auto", "cora_ml-0", "APPNP-BBGDC", 85.1),
    Goal("PPNP's splits of Cora-ML, GCN-BBGDC", "ppnp-auto", "cora_ml-0", "GCN-BBGDC", None),
)


def goals(store: Store) -> str:
    """A table of all goals."""
    lines = [
        "| figure | asked | measured | reached |",
        "|---|---|---|---|",
        *cell_goals(store),
        *(_accuracy(store, goal) for goal in ACCURACIES),
        *goal_rows(stored("rivals-auto", store)),
    ]
    return "\n".join(lines)


def _accuracy(store: Store, goal: Goal) -> str:
    runs = stored(goal.recipe, store).at(goal.row, goal.column)
    asked = "reported" if goal.asked is None else f"{goal.asked:.1f} %"
    planned = len(runs.cell.configs)
    if len(runs.records) < planned:
        done = f"{len(runs.records)} of {planned} runs, unfinished" if runs.records else "not run"
        return f"| {goal.what} | {asked} | {done} | no |"
    ours = summarise(percent(runs))
    reached = "" if goal.asked is None else _yes(round(ours.mean, 2) >= goal.asked)
    shown = f"{ours.mean:.2f} ± {ours.deviation:.2f} %, {ours.count} runs"
    return f"| {goal.what} | {asked} | {shown} | {reached} |"


def _yes(reached: bool) -> str:
    return "yes" if reached else "no"
