"""A target's recipe: a TOML file that says which runs it takes and every setting of them."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from graphdrop import config as settings
from graphdrop.config import Config
from graphdrop.config.recipes import merged

Values = dict[str, dict[str, Any]]
OWN_SPLIT = "run"
"""As `data.split_seed` in a recipe: every run draws its own split, from its seed."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Row(_Part):
    """A line of a table or of a figure: a method, and what is set for it."""

    name: str
    method: str = ""
    """The method's name, if it is not the row's."""
    set: Values = {}


class Rule(_Part):
    """Settings for the cells of some methods, datasets or depths; of all where none is named."""

    methods: list[str] | None = None
    datasets: list[str] | None = None
    layers: list[int] | None = None
    set: Values

    def fits(self, method: str, dataset: str, layers: int) -> bool:
        """Whether it is about this cell."""
        asked = ((self.methods, method), (self.datasets, dataset), (self.layers, layers))
        return all(wanted is None or is_ in wanted for wanted, is_ in asked)


class Quick(_Part):
    """The reduced form: fewer runs, and settings over all others."""

    runs: Annotated[int, Field(ge=1)]
    set: Values = {}


class Recipe(_Part):
    """The runs of a target. Later settings win: the rules in order, the row's, the quick ones.

    `base` names another recipe, whose rules and quick form come first.
    """

    title: str
    base: str | None = None
    runs: Annotated[int, Field(ge=1)]
    first_seed: Annotated[int, Field(ge=0)]
    datasets: list[str]
    layers: list[int]
    rows: list[Row]
    rules: list[Rule] = []
    quick: Quick
    watch: bool = False

    def cells(self, *, runs: int | None = None, quick: bool = False) -> list[Cell]:
        """Every cell with the settings of its runs; `runs` in place of the recipe's own number."""
        count = runs or (self.quick.runs if quick else self.runs)
        seeds = range(self.first_seed, self.first_seed + count)
        columns = itertools.product(self.datasets, self.layers)
        return [
            Cell(
                row.name,
                dataset,
                layers,
                tuple(self._config(row, dataset, layers, seed, quick) for seed in seeds),
            )
            for (dataset, layers), row in itertools.product(columns, self.rows)
        ]

    def _config(self, row: Row, dataset: str, layers: int, seed: int, quick: bool) -> Config:
        method = row.method or row.name
        fitting = [rule.set for rule in self.rules if rule.fits(method, dataset, layers)]
        cell = {"data": {"dataset": dataset}, "model": {"method": method, "layers": layers}}
        over = self.quick.set if quick else {}
        asked = merged({"seed": seed}, *fitting, row.set, over, cell)
        if asked["data"].get("split_seed") == OWN_SPLIT:
            asked["data"]["split_seed"] = seed
        return settings.settle(asked)


@dataclass(frozen=True)
class Cell:
    """One cell of a table: a row, a dataset, a depth, and the settings of its runs."""

    row: str
    dataset: str
    layers: int
    configs: tuple[Config, ...]

    @property
    def column(self) -> str:
        """Such as `cora-4`."""
        return f"{self.dataset}-{self.layers}"

    @property
    def name(self) -> str:
        """Such as `cora, 4 layers, GCN-BBGDC`."""
        return f"{self.dataset}, {self.layers} layers, {self.row}"


def names() -> list[str]:
    """Every recipe there is, such as `table1-paper`."""
    return sorted(p.name.removesuffix(".toml") for p in _folder().iterdir())


def read_recipe(name: str) -> Recipe:
    """The recipe of this name, such as `table1-paper`, with all that it takes from its base."""
    try:
        return Recipe.model_validate(_read(name))
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, one['loc']))} ({one['msg'].lower()})" for one in error.errors()
        ]
        raise ValueError(f"the recipe {name}.toml is wrong in {'; '.join(problems)}") from error


def _read(name: str) -> dict[str, Any]:
    values = tomllib.loads((_folder() / f"{name}.toml").read_text(encoding="utf-8"))
    if (base := values.get("base")) is None:
        return values
    under = _read(base)
    return values | {
        "rules": [*under.get("rules", []), *values.get("rules", [])],
        "quick": _over(under["quick"], values.get("quick", {})),
    }


def _over(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    both = {**under, **over}
    return both | {"set": merged(under.get("set", {}), over.get("set", {}))}


def _folder() -> Any:
    return files("graphdrop.experiments") / "recipes"


def only(cells: Sequence[Cell], datasets: Sequence[str], methods: Sequence[str]) -> list[Cell]:
    """The cells of some datasets and methods; of all where none is named."""
    return [
        cell
        for cell in cells
        if (not datasets or cell.dataset in datasets)
        and (not methods or {cell.row, str(cell.configs[0].model.method)} & set(methods))
    ]
