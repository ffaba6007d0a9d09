"""``Table``: named columns of text or numbers, which kind each is, and where each row stands."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none"})
"""Words, in lower case, that stand for a missing number."""
MOST_CATEGORIES = 64
"""A column of text with more different values is free text."""
REPEATS = 2
"""A column of text is free text, too, if its values occur less often than this on average."""
Kind = Literal["number", "category", "date", "text", "empty"]


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

    @property
    def strings(self) -> Sequence[str | None]:
        """The values as text without spaces around, whole numbers without a point."""
        if self.numbers is None:
            return [None if text is None else text.strip() for text in self.text]
        return [None if math.isnan(value) else as_text(value) for value in self.numbers.tolist()]

    @cached_property
    def parsed(self) -> tuple[NDArray[np.float64], int | None]:
        """The values as numbers, NaN where they are missing, and the first row that has none."""
        if self.numbers is not None:
            return self.numbers, None
        comma = self.decimal_comma
        known = {text: parse_number(text, decimal_comma=comma) for text in dict.fromkeys(self.text)}
        values = np.fromiter((known[text] or 0.0 for text in self.text), float, len(self.text))
        return values, next((i for i, text in enumerate(self.text) if known[text] is None), None)

    @property
    def kind(self) -> Kind:
        """The kind of the column by its values."""
        values, wrong = self.parsed
        if wrong is None:
            return "empty" if np.isnan(values).all() else "number"
        found = {text for text in self.text if text is not None}
        if all(as_time(text) is not None or is_missing(text) for text in found):
            return "date"
        filled = sum(text is not None for text in self.text)
        few = len(found) <= MOST_CATEGORIES and len(found) * REPEATS <= filled
        return "category" if few else "text"


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one length, from a file or an object."""

    name: str
    """What errors call it."""
    columns: Mapping[str, Column]
    lines: Sequence[int] | None = None
    """The line of each row of the file; ``None`` where there are no lines."""
    order: NDArray[np.int64] | None = None
    """The row of the file that each row here was; ``None`` where rows are in the file's order."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values()), Column()))

    def arranged(self, order: NDArray[np.int64]) -> Table:
        """Return the rows in another order, and the columns sorted by name."""
        columns = {name: self.columns[name].arranged(order) for name in sorted(self.columns)}
        return Table(self.name, columns, self.lines, order)

    def where(self, row: int) -> str:
        """The place of a row, for errors."""
        row = row if self.order is None else int(self.order[row])
        return f"{self.name}, " + (f"line {self.lines[row]}" if self.lines else f"row {row}")

    def column(self, name: str, option: str) -> Column:
        """A column by name, or an error that lists those there are."""
        if name not in self.columns:
            raise ValueError(
                f"{option} is {name!r}; {self.name} has the columns {listed(self.columns)}. "
                "Give one of them."
            )
        return self.columns[name]

    def numbers(self, name: str, option: str = "features") -> NDArray[np.float64]:
        """A column as numbers, NaN for a missing one; an error names the line of any other cell."""
        column = self.column(name, option)
        values, wrong = column.parsed
        if wrong is not None:
            remedy = f", or write {name}:category" if option == "features" else ""
            raise ValueError(
                f"{self.where(wrong)}: {name} is {str(column.text[wrong])[:40]!r}; it takes a "
                f"number, or nothing. Correct it{remedy}."
            )
        with np.errstate(over="ignore"):
            infinite = np.isinf(values.astype(np.float32))
        if infinite.any():
            row = int(infinite.argmax())
            raise ValueError(
                f"{self.where(row)}: {name} is {values[row]}; it takes numbers that are finite in "
                "float32. Correct it, or leave the cell empty."
            )
        return values


class Feature(NamedTuple):
    """A column that becomes features."""

    name: str
    kind: Kind


def choose_features(
    nodes: Table, features: Sequence[str] | None, others: Sequence[str | None]
) -> tuple[list[Feature], dict[str, str]]:
    """The columns that become features, and those left out with the reason.

    Args:
        nodes: the table.
        features: names, each with ``:category`` or ``:number`` behind it or not; ``None`` takes
            all columns of numbers and categories.
        others: columns that are something else, such as the id and the label.
    """
    if features is not None:
        return [_read_feature(nodes, name, others) for name in features], {}
    reasons = {"text": "free text", "date": "dates", "empty": "empty"}
    chosen, left = list[Feature](), dict[str, str]()
    for name, column in nodes.columns.items():
        if name in others:
            continue
        if is_unnamed(name):
            left[name] = "has no name"
        elif column.kind in reasons:
            left[name] = reasons[column.kind]
        else:
            chosen.append(Feature(name, column.kind))
    if not chosen:
        raise ValueError(
            f"{nodes.name} has no column of numbers or categories besides id and label (left out: "
            f"{listed([f'{name}, {why}' for name, why in left.items()]) or 'none'}): add features, "
            "for instance the number of edges of each node"
        )
    return chosen, left


def _read_feature(nodes: Table, name: str, others: Sequence[str | None]) -> Feature:
    base, _, asked = name.rpartition(":")
    typed = name not in nodes.columns and base in nodes.columns
    if (base if typed else name) in others:
        raise ValueError(
            f"features has {name!r}, which is the id, the label or the split of {nodes.name}; it "
            "takes other columns. Leave it out."
        )
    if typed:
        if asked not in ("number", "category"):
            raise ValueError(f"features has {name!r}; it takes {base}:category or {base}:number")
        return Feature(base, "number" if asked == "number" else "category")
    kind = nodes.column(name, "features").kind
    if kind == "empty":
        raise ValueError(f"features has {name!r}, which is empty in {nodes.name}: leave it out")
    if kind in ("text", "date"):
        what = "is free text" if kind == "text" else "has dates"
        time = f", or split by it: --split-by-time {name}" if kind == "date" else ""
        raise ValueError(
            f"features has {name!r}, which {what} in {nodes.name}; it takes columns of numbers or "
            f"categories. Leave it out, or write {name}:category{time}."
        )
    return Feature(name, kind)


def is_missing(text: str) -> bool:
    """Whether a cell is a word for a missing number."""
    return text.strip().lower() in MISSING


def is_unnamed(name: str) -> bool:
    """Whether a column has no name in its file, such as the index that pandas writes."""
    return re.fullmatch(r"#\d+", name) is not None


def parse_number(text: str | None, *, decimal_comma: bool = False) -> float | None:
    """A cell as a number: NaN for a missing one, ``None`` for what is no number."""
    if text is None:
        return math.nan
    if decimal_comma and text.count(",") == 1 and "." not in text:
        text = text.replace(",", ".")
    try:
        value = float(text)
    except ValueError:
        return math.nan if is_missing(text) else None
    return None if "_" in text else value  # Python reads 1_000, and nobody else does


def as_number(text: str) -> float | None:
    """A finite number, or ``None``."""
    value = parse_number(text)
    return value if value is not None and math.isfinite(value) else None


def as_text(value: float) -> str:
    """A number as text; a whole one has no point."""
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def as_time(text: str) -> float | None:
    """Seconds since 1970 of an ISO date, month or date-time, UTC without a zone, or ``None``."""
    text = text.strip()
    try:
        value = datetime.fromisoformat(f"{text}-01" if re.fullmatch(r"\d{4}-\d\d", text) else text)
    except ValueError:
        return None
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()


def refuse_repeats(names: list[str], where: object) -> list[str]:
    """Return the names of columns; two that are the same are refused."""
    if len(set(names)) < len(names):
        name = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"{where} has two columns named {name!r}: rename one of them")
    return names


def listed(names: Sequence[str] | Mapping[str, object], most: int = 12) -> str:
    """Names with commas between them, shortened where they are many or long."""
    shown = [name if len(name) <= 40 else f"{name[:37]}..." for name in list(names)[:most]]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def list_counts(counts: Mapping[str, int]) -> str:
    """Counts by name, such as ``age 12, venue 3``."""
    return listed([f"{name} {count:,}" for name, count in counts.items()], 6)
