"""Search spaces: settings with their values, for all cells or some."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Self

from pydantic import Field, model_validator

from experiments.recipe import Filter
from graphdrop.config import Config
from graphdrop.config.recipes import Settings

Value = bool | int | float | str
Assignment = dict[str, Value]
"""Values by setting, such as `{"model.dropout": 0.5}`."""
Bounds = Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=2, max_length=2)]


class Space(Filter):
    """Settings with the values they may take, in the cells that it is about."""

    choose: dict[str, Annotated[list[Value], Field(min_length=1)]] = Field(default_factory=dict)
    """One of these, all alike."""
    log: dict[str, Bounds] = Field(default_factory=dict)
    """Between these, uniform in the logarithm, to two digits."""
    together: list[Assignment] = Field(default_factory=list)
    """One of these sets of settings, which belong together."""

    @model_validator(mode="after")
    def _sets_are_about_the_same(self) -> Self:
        if len({frozenset(one) for one in self.together}) > 1:
            raise ValueError("all sets of `together` need the same settings")
        return self

    def draw(self, *coordinates: object) -> Assignment:
        """A value of every setting, which depends on the coordinates and on nothing else."""
        drawn: Assignment = {}
        for key, values in self.choose.items():
            drawn[key] = values[int(uniform(*coordinates, key) * len(values))]
        for key, (low, high) in self.log.items():
            value = low * math.exp(uniform(*coordinates, key) * math.log(high / low))
            drawn[key] = float(f"{value:.1e}")
        if self.together:
            drawn |= self.together[int(uniform(*coordinates, "together") * len(self.together))]
        return drawn

    @property
    def keys(self) -> list[str]:
        """The settings it draws."""
        return [*self.choose, *self.log, *(self.together[0] if self.together else [])]


def uniform(*coordinates: object) -> float:
    """A number in [0, 1) that is the same for the same coordinates, wherever and whenever.

    With a setting's name among them, a setting more in a space leaves the others' draws alone.
    """
    digest = hashlib.sha256("\n".join(map(str, coordinates)).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def draw(spaces: Iterable[Space], *coordinates: object) -> Assignment:
    """A value of every setting of some spaces; where two have the same, the later one's."""
    return {key: value for one in spaces for key, value in one.draw(*coordinates).items()}


def values_of(config: Config, keys: Iterable[str]) -> Assignment:
    """The values of some settings in a configuration."""
    values = config.model_dump(mode="json")
    return {key: values[section][name] for key in keys for section, _, name in [key.partition(".")]}


def nested(drawn: Mapping[str, Value]) -> Settings:
    """The same by section and name, such as `{"model": {"dropout": 0.5}}`."""
    result: Settings = {}
    for key, value in drawn.items():
        section, _, name = key.partition(".")
        result.setdefault(section, {})[name] = value
    return result
