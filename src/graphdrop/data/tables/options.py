"""``TableOptions``: which column of a table is what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class TableOptions:
    """The columns of a table by their use; ``None`` for what follows from their names."""

    label: str | None = None
    id: str | None = None
    features: str | Sequence[str] | None = None
    """In a list or with commas between them; ``None`` for all that are numbers or categories."""
    split_column: str | None = None
    weight: str | None = None
    missing: Literal["impute", "refuse"] = "impute"
    task: Literal["auto", "classes", "numbers"] = "auto"
    """Whether the label is a class or a number; ``"auto"`` goes by the values."""
    split_by_time: str | None = None
    source: str | None = None
    """The column of the edges with the ids of one end; ``target`` names that of the other."""
    target: str | None = None

    def __post_init__(self) -> None:
        if self.split_column and self.split_by_time:
            raise ValueError(
                f"split_column is {self.split_column!r} and split_by_time {self.split_by_time!r}: "
                "give one of them"
            )
        if bool(self.source) != bool(self.target):
            raise ValueError(
                f"source is {self.source!r} and target {self.target!r}: give both columns of the "
                "edges, --source-column and --target-column, or neither"
            )
        if self.missing not in ("impute", "refuse"):
            raise ValueError(f"missing is {self.missing!r}; it takes 'impute' or 'refuse'")
        if self.task not in ("auto", "classes", "numbers"):
            raise ValueError(f"task is {self.task!r}; it takes 'auto', 'classes' or 'numbers'")

    @property
    def asked(self) -> tuple[str, ...] | None:
        """The names of the features asked for; ``None`` for all."""
        given = self.features
        if isinstance(given, str):
            given = [name.strip() for name in given.split(",")]
        return tuple(name for name in given or () if name) or None
