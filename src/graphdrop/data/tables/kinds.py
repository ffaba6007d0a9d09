"""Kinds of columns: numbers, categories, and dates and free text, which are no features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphdrop.data.tables.table import Column, Table, as_time, is_missing, is_unnamed, listed

Kind = Literal["number", "category", "date", "text", "empty"]
ASKED: tuple[str, ...] = ("number", "category")
MOST_CATEGORIES = 64
"""A column of text with more different values is free text."""
REPEATS = 2
"""So is one whose values are there less often than this on average."""


class Chosen(NamedTuple):
    """A column that becomes features."""

    name: str
    kind: Kind


def chosen_columns(
    nodes: Table, features: Sequence[str] | None, others: Sequence[str | None]
) -> tuple[list[Chosen], dict[str, str]]:
    """The columns that become features, and those left out with the reason.

    Args:
        nodes: the table.
        features: names, each with ``:category`` or ``:number`` behind it or not; ``None`` takes
            all columns of numbers and categories.
        others: columns that are something else, such as the id and the label.
    """
    if features is not None:
        return [_asked(nodes, name, others) for name in features], {}
    chosen, left = list[Chosen](), dict[str, str]()
    for name, column in nodes.columns.items():
        if name in others:
            continue
        kind = "text" if is_unnamed(name) else kind_of(column)
        if kind in ("number", "category"):
            chosen.append(Chosen(name, kind))
        elif is_unnamed(name):
            left[name] = "has no name"
        else:
            left[name] = {"text": "free text", "date": "dates"}.get(kind, kind)
    if not chosen:
        raise ValueError(
            f"{nodes.name} has no column of numbers or categories besides id and label (left out: "
            f"{listed([f'{name}, {why}' for name, why in left.items()]) or 'none'}): add features, "
            "for instance the number of edges of each node"
        )
    return chosen, left


def _asked(nodes: Table, name: str, others: Sequence[str | None]) -> Chosen:
    base, _, asked = name.rpartition(":")
    typed = name not in nodes.columns and base in nodes.columns
    if (base if typed else name) in others:
        raise ValueError(
            f"features has {name!r}, which is the id, the label or the split of {nodes.name}; it "
            "takes other columns. Leave it out."
        )
    if typed:
        if asked not in ASKED:
            raise ValueError(f"features has {name!r}; it takes {base}:category or {base}:number")
        return Chosen(base, "number" if asked == "number" else "category")
    kind = kind_of(nodes.column(name, "features"))
    if kind == "text":
        raise ValueError(
            f"features has {name!r}, which is free text in {nodes.name}; it takes columns of "
            f"numbers or categories. Leave it out, or write {name}:category."
        )
    if kind == "date":
        raise ValueError(
            f"features has {name!r}, which has dates in {nodes.name}; it takes columns of numbers "
            f"or categories. Leave it out, write {name}:category, or split by it: --split-by-time "
            f"{name}."
        )
    if kind == "empty":
        raise ValueError(f"features has {name!r}, which is empty in {nodes.name}: leave it out")
    return Chosen(name, kind)


def kind_of(column: Column) -> Kind:
    """The kind of a column by its values."""
    values, wrong = column.parsed
    if wrong is None:
        return "empty" if np.isnan(values).all() else "number"
    found = {text for text in column.text if text is not None}
    if all(as_time(text) is not None or is_missing(text) for text in found):
        return "date"
    filled = sum(text is not None for text in column.text)
    few = len(found) <= MOST_CATEGORIES and len(found) * REPEATS <= filled
    return "category" if few else "text"


def numbers_of(table: Table, name: str, option: str = "features") -> NDArray[np.float64]:
    """A column as numbers, NaN where they are missing; an error names the line of any other."""
    column = table.column(name, option)
    values, wrong = column.parsed
    if wrong is not None:
        remedy = f", or write {name}:category" if option == "features" else ""
        raise ValueError(
            f"{table.where(wrong)}: {name} is {str(column.text[wrong])[:40]!r}; it takes a number, "
            f"or nothing. Correct it{remedy}."
        )
    with np.errstate(over="ignore"):
        infinite = np.isinf(values.astype(np.float32))
    if infinite.any():
        row = int(infinite.argmax())
        raise ValueError(
            f"{table.where(row)}: {name} is {values[row]}; it takes numbers that are finite in "
            "float32. Correct it, or leave the cell empty."
        )
    return values
