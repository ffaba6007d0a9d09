"""Figures that were to be reached, beside what was measured: accuracies, and the paper's tables."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from experiments.rivals_page import goal_rows
from experiments.store import Store
from experiments.tables import signed, summarise
from experiments.target_runs import CellRuns, TargetRuns, stored

GRAPHS = {"cora": "Cora", "citeseer": "Citeseer"}


class PaperTable(NamedTuple):
    """The cells of a table that have learned rates."""

    title: str
    target: str
    columns: Sequence[str]
    rows: Sequence[str]


class Kind(NamedTuple):
    """A recipe of these tables, and what its networks are."""

    recipe: str
    what: str
    dropout: bool
    sampled: bool
    """Whether all of them predict with samples."""


TABLES = (
    PaperTable(
        "table 1, learned rates on Cora and Citeseer",
        "table1",
        ("cora-2", "cora-4", "citeseer-2", "citeseer-4"),
        ("GCN-BBDE", "GCN-BBGDC"),
    ),
    PaperTable(
        "table 2",
        "table2",
        ("cora-4", "citeseer-4"),
        ("GCN-BDE-ARM", "GCN-BBDE-ARM", "GCN-BBGDC-ARM"),
    ),
    PaperTable("table 3", "table3", ("cora-4",), ("2 blocks", "16 blocks", "32 blocks")),
)
KINDS = (
    Kind("tuned", "with DropOut beside the masks, tuned", dropout=True, sampled=False),
    Kind("paper", "without DropOut, sampled, the paper's recipe", dropout=False, sampled=True),
    Kind(
        "auto",
        "with DropOut and consistency loss, sampled, the default settings",
        dropout=True,
        sampled=True,
    ),
    Kind(
        "deep",
        "with DropOut and consistency loss, sampled, four layers searched for",
        dropout=True,
        sampled=True,
    ),
)


def percent(runs: CellRuns) -> list[float]:
    """The test accuracy of every run."""
    return [100.0 * value for value in runs.values(lambda record: record["test"]["accuracy"])]


def cell_goals(store: Store) -> Iterator[str]:
    """For every table and recipe, in how many cells the paper's mean is reached."""
    for table in TABLES:
        for kind in KINDS:
            found = stored(f"{table.target}-{kind.recipe}", store)
            what = f"{table.title}, {kind.what}: cells at the paper's mean"
            yield f"| {what} | {_reached(found, table)} |"


def _reached(found: TargetRuns, table: PaperTable) -> str:
    cells = list(itertools.product(table.rows, table.columns))
    made = [cell for cell in cells if _is_complete(found.at(*cell))]
    if len(made) < len(cells):
        return f"{len(cells)} | {len(made)} of them run | no"
    away = [statistics.fmean(percent(found.at(*one))) - found.printed(*one)[0] for one in cells]
    reached = sum(one >= 0.0 for one in away)
    most = "" if reached == len(cells) else f", the furthest {signed(min(away), 2)} points away"
    return f"{len(cells)} | {reached}{most} | {'yes' if reached == len(cells) else 'no'}"


def _is_complete(runs: CellRuns) -> bool:
    return len(runs.records) == len(runs.cell.configs)


def paper_cells(store: Store) -> str:
    """The three tables, the paper's mean above what came out with DropOut and without."""
    return "\n\n".join("\n".join(_table(store, table)) for table in TABLES)


def _table(store: Store, table: PaperTable) -> Iterator[str]:
    found = {kind: stored(f"{table.target}-{kind.recipe}", store) for kind in KINDS}
    names = [_column(column) for column in table.columns]
    yield f"**{table.title[0].upper()}{table.title[1:]}**, accuracy (%):"
    yield ""
    yield f"| | | {' | '.join(names)} |"
    yield "|---" * (len(names) + 2) + "|"
    for row in table.rows:
        printed = [f"{found[KINDS[0]].printed(row, column)[0]:.2f}" for column in table.columns]
        yield f"| {row} | the paper | {' | '.join(printed)} |"
        for kind, runs in found.items():
            cells = [_cell(runs, row, column) for column in table.columns]
            yield f"| | {kind.what} | {' | '.join(cells)} |"


def _cell(found: TargetRuns, row: str, column: str) -> str:
    if not _is_complete(found.at(row, column)):
        return "not run"
    ours = summarise(percent(found.at(row, column)))
    reached = ours.mean >= found.printed(row, column)[0]
    shown = f"{ours.mean:.2f} ± {ours.deviation:.2f}"
    return f"**{shown}**" if reached else shown


def _column(column: str) -> str:
    graph, layers = column.split("-")
    return f"{GRAPHS[graph]}, {layers} layers"


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
    reached = ""
    if goal.asked is not None:
        reached = "yes" if round(ours.mean, 2) >= goal.asked else "no"
    shown = f"{ours.mean:.2f} ± {ours.deviation:.2f} %, {ours.count} runs"
    return f"| {goal.what} | {asked} | {shown} | {reached} |"
