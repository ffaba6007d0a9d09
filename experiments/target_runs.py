"""The finished runs of a target by cell, and a note on their origin."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from experiments.recipe import Cell, Recipe, read_recipe
from experiments.store import Record, Store
from graphdrop.io.visible import format_duration
from graphdrop.metrics import ThresholdAxis

RecordValue = Callable[[Record], float]
"""A function that takes a number from a record."""


@cache
def paper() -> dict[str, Any]:
    """The paper's numbers by target."""
    path = Path(__file__).with_name("paper.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class CellRuns:
    """A cell with its finished runs, and the number of diverged ones."""

    cell: Cell
    records: list[Record]
    diverged: int

    def values(self, of: RecordValue) -> list[float]:
        """One number of each run."""
        return [of(record) for record in self.records]


@dataclass(frozen=True)
class TargetRuns:
    """All cells of a target with their runs."""

    target: str
    recipe: Recipe
    name: str
    """The name of the recipe: paper or tuned."""
    quick: bool
    cells: list[CellRuns]
    axis: ThresholdAxis = ThresholdAxis.LARGEST
    """The axis of the thresholds of PAvPU."""

    @property
    def title(self) -> str:
        """The recipe's title, marked if the runs are quick ones."""
        return f"QUICK RUNS, {self.recipe.title}" if self.quick else self.recipe.title

    def at(self, row: str, column: str) -> CellRuns:
        """The cell of a row and a column such as `cora-4`."""
        return next(c for c in self.cells if (c.cell.row, c.cell.column) == (row, column))

    def columns(self) -> list[str]:
        """The columns, such as `cora-4`, in the recipe's order."""
        return list(dict.fromkeys(c.cell.column for c in self.cells))

    def printed(self, row: str, column: str) -> list[float]:
        """The paper's mean and standard deviation, as far as it prints them."""
        values: list[float] = paper().get(self.target, {}).get(row, {}).get(column, [])
        return values

    def note(self) -> str:
        """The origin of the results: runs, seeds, data, versions and time."""
        records = [record for cell in self.cells for record in cell.records]
        if not records:
            return "No run yet."
        seeds = sorted({record["seed"] for record in records})
        data = sorted({(r["config"]["data"]["dataset"], r["data"][:8]) for r in records})
        sums = _few([f"{dataset} {sha256}" for dataset, sha256 in data])
        versions = sorted(
            {f"graphdrop {_of(r, 'graphdrop')}, torch {_of(r, 'torch')}" for r in records}
        )
        # On a busy machine processor time, where a record has it, says more than that of the clock.
        spent = format_duration(sum(_seconds(record) for record in records))
        kind = "Quick form of the recipe" if self.quick else "Recipe"
        return (
            f"{kind} {self.target}-{self.name}: {len(records)} runs, seeds {seeds[0]} to "
            f"{seeds[-1]}; data (sha256) {sums}; {' and '.join(versions)}; {spent} of computing."
        )


def _of(record: Record, package: str) -> str:
    version: str = record["versions"][package]
    return version


def _seconds(record: Record) -> float:
    return float(record["cpu_seconds"] if "cpu_seconds" in record else record["seconds"])


def _few(words: Sequence[str], limit: int = 4) -> str:
    more = f" and {len(words) - limit} more" if len(words) > limit else ""
    return ", ".join(words[:limit]) + more


def in_store(cell: Cell, store: Store, *, watch: bool, checksum: str | None = None) -> CellRuns:
    """A cell with those of its runs that the store has; `checksum` is of a file not at hand."""
    records = store.records()
    keys = cell.keys(watch=watch, checksum=checksum)
    there = [records[key] for key in keys if key in records]
    whole = [record for record in there if "error" not in record]
    return CellRuns(cell, whole, len(there) - len(whole))


def stored(name: str, store: Store) -> TargetRuns:
    """All cells of a recipe, such as `table1-tuned`, with those of their runs that a store has."""
    recipe = read_recipe(name)
    target, _, kind = name.rpartition("-")
    cells = [in_store(cell, store, watch=recipe.watch) for cell in recipe.cells()]
    return TargetRuns(target, recipe, kind, False, cells)
