"""Factors of the controlled experiment: the arms of each, and what they are compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

PRIMARY: tuple[Literal["accuracy", "nll"], ...] = ("accuracy", "nll")
"""The scores whose differences were fixed beforehand; all others are descriptive."""
BASE = "base"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Arm(_Part):
    """One value of a factor: the runs of a row, seen in one way, against those of another."""

    name: str
    row: str = ""
    """The row whose runs it has, if that is not of the same name."""
    view: str = "own"
    """The way of predicting with them."""
    best_of: list[str] = []
    """Rows of which every seed takes the one with the lowest NLL on validation nodes."""
    against: str = BASE
    """The row that it is compared with."""
    graphs: list[str] | None = None
    """The graphs that it is of; where the base has this value itself it is not run again."""
    primary: bool = True
    """Whether its comparison is one of those that were fixed beforehand."""

    @property
    def rows(self) -> list[str]:
        """The rows whose runs it needs, without that of the comparison."""
        return self.best_of or [self.row or self.name]

    def is_of(self, graph: str) -> bool:
        """Whether there is such an arm on a graph."""
        return self.graphs is None or graph in self.graphs


class Factor(_Part):
    """A part of the method, and its values."""

    name: str
    title: str
    arms: Annotated[list[Arm], Field(min_length=1)]

    def planned(self, graphs: Sequence[str]) -> int:
        """The number of primary comparisons on these graphs."""
        arms = [arm for arm in self.arms if arm.primary]
        return len(PRIMARY) * sum(arm.is_of(graph) for arm in arms for graph in graphs)

    def needs(self, row: str, graph: str) -> bool:
        """Whether the runs of a row on a graph are needed."""
        return any(row == arm.against or row in arm.rows for arm in self.arms if arm.is_of(graph))


def chosen(factors: Sequence[Factor], names: Sequence[str]) -> Iterator[Factor]:
    """The factors of these names, all for none; an unknown name is an error."""
    known = [factor.name for factor in factors]
    for name in names:
        if name not in known:
            takes = f"one of {', '.join(known)}" if known else "no value with this target"
            raise ValueError(f"--factor is {name!r}; it takes {takes}.")
    yield from (factor for factor in factors if not names or factor.name in names)
