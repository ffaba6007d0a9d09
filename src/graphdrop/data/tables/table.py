"""``Table``: named columns of text or numbers, and where each row stands in its file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none"})
"""Words, in lower case, that stand for a missing number."""
_UNNAMED = re.compile(r"#\d+")
_MONTH = re.compile(r"\d{4}-\d{2}")


@dataclass(frozen=True, eq=False)
class Column:
    """Text with ``None`` where a value is missing, or numbers with NaN there."""

    text: Sequence[str | None] = ()
    numbers: NDArray[np.float64] | None = None
    decimal_comma: bool = False
    """Whether ``3,5`` may be a number; only where the comma separates no columns."""

    def __len__(self) -> int:
        return len(self.text) if self.numbers is None else len(self.numbers)

    def arranged(self, order: NDArray[np.int64]) -> Column:
        """Return the values in another order."""
        text = [self.text[row] for row in order.tolist()] if self.text else ()
        numbers = None if self.numbers is None else self.numbers[order]
        return Column(text, numbers, decimal_comma=self.decimal_comma)

    def strings(self) -> Sequence[str | None]:
        """The values as text, whole numbers without a point; ``None`` for missing."""
        if self.numbers is None:
            return self.text
        return [None if math.isnan(value) else _text(value) for value in self.numbers.tolist()]

    @cached_property
    def parsed(self) -> tuple[NDArray[np.float64], int | None]:
        """The values as numbers, NaN where they are missing, and the first row that has none."""
        if self.numbers is not None:
            return self.numbers, None
        comma = self.decimal_comma
        known = {text: _number(text, decimal_comma=comma) for text in dict.fromkeys(self.text)}
        wrong = {text for text, value in known.items() if value is None}
        values = np.fromiter((known[text] or 0.0 for text in self.text), float, len(self.text))
        first = next((row for row, text in enumerate(self.text) if text in wrong), None)
        return values, first if wrong else None


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one length, from a file or an object."""

    name: str
    """What errors call it."""
    columns: Mapping[str, Column]
    rows: int
    lines: Sequence[int] | None = None
    """The line of each row of the file; ``None`` where there are no lines."""
    order: NDArray[np.int64] | None = None
    """The row of the file that each row here was; ``None`` where rows are in the file's order."""

    def arranged(self, order: NDArray[np.int64]) -> Table:
        """Return the rows in another order, and the columns sorted by name."""
        columns = {name: self.columns[name].arranged(order) for name in sorted(self.columns)}
        return Table(self.name, columns, self.rows, self.lines, order)

    def where(self, row: int) -> str:
        """The place of a row, for errors."""
        if self.order is not None:
            row = int(self.order[row])
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


def _number(text: str | None, *, decimal_comma: bool = False) -> float | None:
    """A cell as a number: NaN for a missing one, ``None`` for what is no number."""
    if text is None:
        return math.nan
    if decimal_comma and text.count(",") == 1 and "." not in text:
        text = text.replace(",", ".")
    try:
        value = float(text)
    except ValueError:
        return math.nan if is_missing(text) else None
    # Python reads 1_000, and nobody else does
    return None if "_" in text else value


def is_missing(text: str) -> bool:
    """Whether a cell is a word for a missing number."""
    return text.strip().lower() in MISSING


def is_unnamed(name: str) -> bool:
    """Whether a column has no name in its file, such as the index that pandas writes."""
    return _UNNAMED.fullmatch(name) is not None


def as_number(text: str) -> float | None:
    """A finite number, or ``None``."""
    value = _number(text)
    return value if value is not None and math.isfinite(value) else None


def as_time(text: str) -> float | None:
    """Seconds since 1970 of an ISO date, month or date-time, UTC without a zone, or ``None``."""
    text = text.strip()
    try:
        value = datetime.fromisoformat(f"{text}-01" if _MONTH.fullmatch(text) else text)
    except ValueError:
        return None
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()


def distinct(names: list[str], where: object) -> list[str]:
    """The names of columns; two that are the same are refused."""
    seen = set[str]()
    for name in names:
        if name in seen:
            raise ValueError(f"{where} has two columns named {name!r}: rename one of them")
        seen.add(name)
    return names


def listed(names: Sequence[str] | Mapping[str, object], most: int = 12) -> str:
    """Names with commas between them, shortened where they are many or long."""
    shown = [name if len(name) <= 40 else f"{name[:37]}..." for name in list(names)[:most]]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _text(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
