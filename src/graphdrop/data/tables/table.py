"""``Table``: named columns of text or numbers, and where each row stands in its file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none"})
"""Words, in lower case, that stand for a missing number."""


@dataclass(frozen=True, eq=False)
class Column:
    """Text with ``None`` where a value is missing, or numbers with NaN there."""

    text: Sequence[str | None] = ()
    numbers: NDArray[np.float64] | None = None
    decimal_comma: bool = False
    """Whether ``3,5`` may be a number; only where the comma separates no columns."""

    def __len__(self) -> int:
        return len(self.text) if self.numbers is None else len(self.numbers)

    def strings(self) -> Sequence[str | None]:
        """The values as text, whole numbers without a point; ``None`` for missing."""
        if self.numbers is None:
            return self.text
        return [None if math.isnan(value) else _text(value) for value in self.numbers.tolist()]

    def number(self, row: int) -> float | None:
        """The value of one row as a number, NaN if it is missing, ``None`` if it is none."""
        if self.numbers is not None:
            return float(self.numbers[row])
        return parsed(self.text[row], decimal_comma=self.decimal_comma)


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one length, from a file or an object."""

    name: str
    """What errors call it."""
    columns: Mapping[str, Column]
    rows: int
    lines: Sequence[int] | None = None
    """The line of each row in its file; ``None`` where there are no lines."""

    def where(self, row: int) -> str:
        """The place of a row, for errors."""
        if self.lines is None:
            return f"{self.name}, row {row}"
        return f"{self.name}, line {self.lines[row]}"

    def column(self, name: str, option: str) -> Column:
        """A column by name, or an error that lists those there are."""
        if name not in self.columns:
            raise ValueError(
                f"{option} is {name!r}; {self.name} has the columns {listed(self.columns)}. "
                "Give one of them."
            )
        return self.columns[name]


def parsed(text: str | None, *, decimal_comma: bool = False) -> float | None:
    """A cell as a number: NaN for a missing one, ``None`` for what is no number."""
    if text is None or text.strip().lower() in MISSING:
        return math.nan
    text = text.strip()
    if decimal_comma and text.count(",") == 1 and "." not in text:
        text = text.replace(",", ".")
    if "_" in text:  # Python reads 1_000, and nobody else does
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value


def listed(names: Sequence[str] | Mapping[str, object], most: int = 12) -> str:
    """Names with commas between them, shortened where they are many or long."""
    shown = [name if len(name) <= 40 else f"{name[:37]}..." for name in list(names)[:most]]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _text(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
