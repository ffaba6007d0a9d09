"""Recipes: TOML files with the runs of a target and all their settings."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from experiments.calibrators import Divided
from experiments.controlled import OWN, Controlled
from experiments.factors import Factor
from experiments.keys import run_key
from experiments.left_out_class import LeftOut
from experiments.ood_scores import Unfamiliar
from experiments.set_coverage import Covered
from graphdrop import config as settings
from graphdrop.config import Config, auto
from graphdrop.config.recipes import merge_settings

Values = dict[str, dict[str, Any]]
OWN_SPLIT = "run"
"""A value of `data.split_seed` in recipes: every run has its own split, by its seed."""


class Part(BaseModel):
    """A table of a recipe's file: unknown names are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Row(Part):
    """A line of a table or of a figure: a method, and what is set for it."""

    name: str
    method: str = ""
    """The method's name, if it is not the row's."""
    like: str = ""
    """The method whose rules it takes, if not its own: a control differs in its method alone."""
    members: Annotated[int, Field(ge=1)] = 1
    """Networks of an ensemble, where classes are left out or factors compared."""
    views: list[str] = [OWN]
    """Ways of predicting with its networks, where factors are compared."""
    set: Values = {}

    @property
    def uses(self) -> str:
        """The name of its method."""
        return self.method or self.name

    @property
    def follows(self) -> str:
        """The name of the method whose rules are its own."""
        return self.like or self.uses


def graph_name(dataset: str) -> str:
    """The name of a dataset; of a file, its name without folder and ending."""
    return Path(dataset).stem


class Filter(Part):
    """Which cells something is about: of some rows, methods, datasets or depths, or of all."""

    rows: list[str] | None = None
    methods: list[str] | None = None
    datasets: list[str] | None = None
    layers: list[int] | None = None

    def fits(self, row: Row, dataset: str, layers: int) -> bool:
        """Whether it is about this cell."""
        asked = (
            (self.rows, row.name),
            (self.methods, row.follows),
            (self.datasets, graph_name(dataset)),
            (self.layers, layers),
        )
        return all(wanted is None or is_ in wanted for wanted, is_ in asked)


class Rule(Filter):
    """Settings for the cells that it is about."""

    set: Values


class Quick(Part):
    """The reduced form: fewer runs, and settings over all others."""

    runs: Annotated[int, Field(ge=1)]
    set: Values = {}


class Recipe(Part):
    """The runs of a target. Later settings win: the rules in order, the row's, the quick ones.

    `base` names another recipe, whose rules and quick form come first; `found` a search, whose
    rules come next, and whose winners are rules after all others.
    """

    title: str
    settings: Literal["paper", "auto"] = "paper"
    """The recipe that settings come from where no rule sets them."""
    version: Annotated[int, Field(ge=1)] = auto.VERSION
    """The version of the recipe auto that its committed runs were made with."""
    base: str | None = None
    found: str | None = None
    runs: Annotated[int, Field(ge=1)]
    first_seed: Annotated[int, Field(ge=0)]
    datasets: list[str]
    layers: list[int]
    rows: list[Row]
    rules: list[Rule] = []
    quick: Quick
    watch: bool = False
    classes: dict[str, int] = {}
    """Classes of each dataset, if all of them in turn are left out of training."""
    left_out: dict[str, list[int]] = {}
    """Classes of each graph that are left out in turn, if every score is kept."""
    perturbed: float = 0.5
    """The share of known test nodes whose features are then perturbed."""
    shares: list[float] = []
    """Of nodes to train on and of nodes to select on, if every run divides them by its seed."""
    divisions: Annotated[int, Field(ge=0)] = 0
    """Of test nodes, on which prediction sets are calibrated, if they are counted."""
    numbered: bool = False
    """Whether every run has its own split, numbered from 0."""
    files: bool = False
    """Whether graphs of one's own may be added; with the settings auto they always may."""
    factors: list[Factor] = []
    """What is compared with what, if rows are arms of a controlled experiment."""
    certainty: bool = False
    """Whether these keep confidence and entropy at every test node, where they keep outcomes."""
    graphs: list[str] = []
    """The graphs of its comparisons, those that are given by a file among them."""

    def cells(
        self, *, runs: int | None = None, quick: bool = False, files: Sequence[str] = ()
    ) -> list[Cell]:
        """Every cell with the settings of its runs.

        Args:
            runs: the number of seeds per cell, in place of the recipe's own.
            quick: the reduced form.
            files: graphs of one's own, beside the recipe's datasets.
        """
        count = runs or (self.quick.runs if quick else self.runs)
        over = self.quick.set if quick else {}
        seeds = range(self.first_seed, self.first_seed + count)
        columns = itertools.product([*self.datasets, *files], self.layers)
        return [
            Cell(
                row.name,
                dataset,
                layers,
                tuple(
                    run
                    for seed in seeds
                    for run in self._of_kind(
                        row, self._settled(row, dataset, layers, seed=seed, over=over)
                    )
                ),
                self.version,
            )
            for (dataset, layers), row in itertools.product(columns, self.rows)
        ]

    def _settled(self, row: Row, dataset: str, layers: int, *, seed: int, over: Values) -> Config:
        """All settings of one run; the splits of a graph of one's own are numbered from 0."""
        if self.numbered or (dataset not in self.datasets and not self.shares):
            over = merge_settings(over, {"data": {"split_seed": seed - self.first_seed}})
        return settled_run(
            self.rules, row, dataset, layers, seed=seed, over=over, base=self.settings
        )

    def _of_kind(self, row: Row, config: Config) -> list[Config]:
        """The run as the recipe's kind of run; several where classes are left out."""
        if self.shares:
            train, validation = self.shares
            shares = {"train_share": train, "validation_share": validation}
            return [Divided.model_validate(dict(config) | shares)]
        if self.factors:
            public = config.data.split == "public" and config.data.dataset in self.datasets
            own = {"views": ",".join(row.views), "members": row.members, "nodes": public}
            if public and self.certainty:  # where it is off, keys are what they were without it
                own["certainty"] = True
            return [Controlled.model_validate(dict(config) | own)]
        if self.divisions:
            return [Covered.model_validate(dict(config) | {"divisions": self.divisions})]
        if self.left_out:
            also = {"members": row.members, "perturbed": self.perturbed}
            return [
                Unfamiliar.model_validate(dict(config) | also | {"left_out": one})
                for one in self._classes_of(config.data.dataset)
            ]
        if not self.classes:
            return [config]
        return [
            LeftOut.model_validate(dict(config) | {"left_out": left_out, "members": row.members})
            for left_out in range(self.classes[config.data.dataset])
        ]

    def _classes_of(self, dataset: str) -> list[int]:
        name = graph_name(dataset)
        if name not in self.left_out:
            raise ValueError(
                f"--file gives {dataset}; it takes graphs whose classes to leave out are in the "
                f"recipe, {', '.join(self.left_out)}. Leave it out."
            )
        return self.left_out[name]


def settled_run(
    rules: Sequence[Rule],
    row: Row,
    dataset: str,
    layers: int,
    *,
    seed: int,
    over: Values,
    base: str = "paper",
) -> Config:
    """All settings of one run of a cell; `over` comes after those of the rules and of the row.

    A depth of 0 is not set; `base` is the recipe that everything else comes from.
    """
    fitting = [rule.set for rule in rules if rule.fits(row, dataset, layers)]
    depth = {"layers": layers} if layers else {}
    cell = {"data": {"dataset": dataset}, "model": {"method": row.uses, **depth}}
    # the split of published results, also of graphs that come without one
    public = {"seed": seed, "recipe": base, "data": {"split": "public"}}
    asked = merge_settings(public, *fitting, row.set, over, cell)
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
    version: int
    """The version of the recipe auto that its runs are made with, or were."""

    def keys(self, *, watch: bool = False, checksum: str | None = None) -> list[str]:
        """The keys of its runs, as `run_key` has them."""
        return [
            run_key(one, watch=watch, checksum=checksum, auto_version=self.version)
            for one in self.configs
        ]

    @property
    def column(self) -> str:
        """The column of the table, such as `cora-4`."""
        return f"{self.dataset}-{self.layers}"

    @property
    def name(self) -> str:
        """The name of the cell, such as `cora, 4 layers, GCN-BBGDC`."""
        return f"{self.dataset}, {self.layers} layers, {self.row}"


def names() -> list[str]:
    """Every recipe there is, such as `table1-paper`."""
    return toml_names(recipes_folder())


def toml_names(folder: Path) -> list[str]:
    """The names of the TOML files in a folder, without their ending."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def read_recipe(name: str) -> Recipe:
    """The recipe of this name, such as `table1-paper`, with all that it takes from its base."""
    return checked(Recipe, _read(name), f"the recipe {name}.toml")


P = TypeVar("P", bound=Part)


def checked(kind: type[P], values: Mapping[str, Any], what: str) -> P:
    """The values of a file as what they are to be; all that is wrong is said in one error."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, one['loc']))} ({one['msg'].lower()})" for one in error.errors()
        ]
        raise ValueError(f"{what} is wrong in {'; '.join(problems)}") from error


def _read(name: str) -> dict[str, Any]:
    values = tomllib.loads((recipes_folder() / f"{name}.toml").read_text(encoding="utf-8"))
    rules = values.get("rules", [])
    if (found := values.get("found")) is not None:
        rules = [*_searched(found), *rules, *winners(name, found)]
    if (base := values.get("base")) is None:
        return values | {"rules": rules}
    under = _read(base)
    return values | {
        "rules": [*under["rules"], *rules],
        "quick": _over(under["quick"], values.get("quick", {})),
    }


def _searched(search: str) -> list[dict[str, Any]]:
    """The settings that all configurations of a search share, as rules."""
    path = recipes_folder().parent / "searches" / f"{search}.toml"
    rules: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8")).get("rules", [])
    return rules


def winners(recipe: str, search: str) -> list[dict[str, Any]]:
    """The best settings of a search, as rules."""
    path = recipes_folder() / "found" / f"{search}.toml"
    if not path.is_file():
        raise ValueError(
            f"the recipe {recipe}.toml takes what the search {search} found, and {path} is not "
            f"there: run `python -m experiments search {search} --out {path}`"
        )
    rules: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8")).get("rules", [])
    return rules


def _over(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    both = {**under, **over}
    return both | {"set": merge_settings(under.get("set", {}), over.get("set", {}))}


def recipes_folder() -> Path:
    """Return the folder of the recipes."""
    return Path(__file__).parent / "recipes"


C = TypeVar("C", bound=Cell)


def needed(cells: Sequence[C], factors: Sequence[Factor]) -> list[C]:
    """The cells that some factors need; all of them without factors."""
    return [
        cell
        for cell in cells
        if not factors or any(one.needs(cell.row, graph_name(cell.dataset)) for one in factors)
    ]


def only(cells: Sequence[C], datasets: Sequence[str], methods: Sequence[str]) -> list[C]:
    """The cells of some datasets and methods; of all where none is named.

    A name that a row has is that row; any other is of all rows with the method.
    """
    rows = {cell.row for cell in cells}
    by_method = {name for name in methods if name not in rows}
    return [
        cell
        for cell in cells
        if (not datasets or cell.dataset in datasets)
        and (not methods or cell.row in methods or str(cell.configs[0].model.method) in by_method)
    ]
