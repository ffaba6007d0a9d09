"""Hyperparameter searches: TOML files with the configurations of every cell."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from experiments.keys import run_key
from experiments.recipe import Cell, Part, Row, Rule, checked, settled_run, toml_names
from experiments.spaces import Assignment, Space, draw, nested, values_of
from graphdrop.config import Config, auto
from graphdrop.config.toml import explained

OF_A_CELL = ("data.dataset", "data.split", "data.split_seed", "model.method", "model.layers")
"""Settings that a search must not vary, so that runs stay comparable."""
ATTEMPTS = 1000
"""The number of attempts to sample a configuration that is new."""

Count = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]


class Search(Part):
    """A search: for every row, dataset and depth, with the same budget for each."""

    title: str
    datasets: list[str]
    layers: list[int]
    rows: list[Row]
    rules: list[Rule] = Field(default_factory=list)
    """Settings of all configurations; where a space has the same, of the first one only."""
    spaces: list[Space]
    draw_seed: Natural
    trials: Count
    """Configurations per cell. The first is what the rules say, the others are drawn."""
    first_seed: Natural
    """With which every configuration is run once."""
    finalists: Count
    finalist_seeds: Natural
    """With how many seeds more the best configurations are run; they follow the first."""
    score: Literal["accuracy", "halves", "nll"] = "accuracy"
    """The validation figure that decides: the best accuracy of a run; the accuracy on half of the
    nodes where the other half is best, which does not favour runs that swing; or the NLL. Between
    equals the NLL decides, or the accuracy where the NLL is level."""

    @property
    def seeds(self) -> range:
        """Those of a finalist."""
        return range(self.first_seed, self.first_seed + 1 + self.finalist_seeds)

    def cells(self) -> list[SearchCell]:
        """Every cell with its configurations."""
        columns = itertools.product(self.datasets, self.layers)
        return [
            self._cell(row, dataset, layers)
            for (dataset, layers), row in itertools.product(columns, self.rows)
        ]

    def _cell(self, row: Row, dataset: str, layers: int) -> SearchCell:
        spaces = self.spaces_of(row, dataset, layers)
        first = self._trial(row, dataset, layers, 0, {})
        base = values_of(first.configs[0], [key for space in spaces for key in space.keys])
        known, trials = [base], [replace(first, drawn=base)]
        for number in range(1, self.trials):
            for attempt in range(ATTEMPTS):
                drawn = draw(spaces, self.draw_seed, row.name, dataset, layers, number, attempt)
                if drawn not in known:
                    known.append(drawn)
                    trials.append(self._trial(row, dataset, layers, number, drawn))
                    break
            else:  # the space is smaller than the budget
                break
        configs = tuple(config for trial in trials for config in trial.configs)
        return SearchCell(row.name, dataset, layers, configs, auto.VERSION, tuple(trials))

    def _trial(self, row: Row, dataset: str, layers: int, number: int, drawn: Assignment) -> Trial:
        over = nested(drawn)
        configs = (
            settled_run(self.rules, row, dataset, layers, seed=seed, over=over)
            for seed in self.seeds
        )
        return Trial(number, drawn, tuple(configs))

    def spaces_of(self, row: Row, dataset: str, layers: int) -> list[Space]:
        """The spaces that are about this cell."""
        return [space for space in self.spaces if space.fits(row, dataset, layers)]


@dataclass(frozen=True)
class Trial:
    """One configuration of a cell: its number, what was drawn, and a run for each seed."""

    number: int
    drawn: Assignment
    configs: tuple[Config, ...]

    @cached_property
    def keys(self) -> list[str]:
        """The keys of its runs."""
        return [run_key(config) for config in self.configs]


@dataclass(frozen=True)
class SearchCell(Cell):
    """A cell and the configurations that compete in it."""

    trials: tuple[Trial, ...]


def names() -> list[str]:
    """Every search there is, such as `table1`."""
    return toml_names(searches_folder())


def read_search(name: str) -> Search:
    """The search of this name; what it may not draw is an error."""
    if name not in names():
        raise ValueError(f"TARGET is {name!r}: give one of {', '.join(names())}")
    values = tomllib.loads((searches_folder() / f"{name}.toml").read_text(encoding="utf-8"))
    return checked_search(values, name)


def checked_search(values: Mapping[str, Any], name: str) -> Search:
    """The search that a file describes."""
    what = f"the search {name}.toml"
    search = checked(Search, values, what)
    known = {one.key for one in explained() if "." in one.key}.difference(OF_A_CELL)
    for space, row in itertools.product(search.spaces, search.rows):
        sets = {f"{section}.{key}" for section, inner in row.set.items() for key in inner}
        fits_somewhere = any(
            space.fits(row, *column) for column in itertools.product(search.datasets, search.layers)
        )
        for key in space.keys:
            if key not in known:
                raise ValueError(f"{what} draws {key}, which a search cannot: give a setting")
            if key in sets and fits_somewhere:
                raise ValueError(
                    f"{what} draws {key}, which the row {row.name} sets: set it in a rule instead"
                )
    for row, dataset, layers in itertools.product(search.rows, search.datasets, search.layers):
        if sum(bool(space.together) for space in search.spaces_of(row, dataset, layers)) > 1:
            raise ValueError(
                f"{what} has two spaces with `together` for {row.name}, drawn alike: make them one"
            )
    return search


def searches_folder() -> Path:
    """Return the folder of the searches."""
    return Path(__file__).parent / "searches"
