"""What a table of nodes says of them: ids, classes or numbers, and parts of the split."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphdrop.data.tables.edge_table import are_ends_among
from graphdrop.data.tables.kinds import MOST_CATEGORIES, numbers_of
from graphdrop.data.tables.options import TableOptions
from graphdrop.data.tables.table import (
    Table,
    as_number,
    as_time,
    is_missing,
    is_unnamed,
    listed,
)

ID_NAMES = ("id", "node_id", "node", "nodeid", "name")
LABEL_NAMES = ("label", "class", "y", "target")
PARTS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}
_PART = {word: part for part, words in PARTS.items() for word in words}


def id_column(nodes: Table, asked: str | None, edges: Table, options: TableOptions) -> str:
    """The column of ids: the one asked for, one with a usual name, or the one that edges name.

    Edges name a column whose cells all differ and include every end of an edge. A column of numbers
    without a name is passed over: pandas writes the numbers of rows there.
    """
    if asked:
        nodes.column(asked, "id")
        return asked
    lower = {name.lower(): name for name in sorted(nodes.columns)}
    if found := next((lower[name] for name in ID_NAMES if name in lower), None):
        return found
    usable = [
        name
        for name, column in nodes.columns.items()
        if not is_unnamed(name) or column.parsed[1] is not None
    ] or list(nodes.columns)
    if len(usable) == 1:
        return usable[0]
    fitting = []
    for name in usable:
        cells = {text if text is None else text.strip() for text in nodes.columns[name].strings()}
        distinct = len(cells) == nodes.rows and None not in cells
        if distinct and are_ends_among(edges, cells, options):
            fitting.append(name)
    if len(fitting) > 1:
        raise ValueError(
            f"id is missing and the edges fit several columns of {nodes.name}: {listed(fitting)}. "
            "Give --id NAME (id=...)."
        )
    return fitting[0] if fitting else usable[0]  # no column fits: an error says why


def label_column(nodes: Table, asked: str | None) -> str:
    """The column of labels: the one asked for, or one with a usual name."""
    if asked:
        nodes.column(asked, "label")
        return asked
    lower = {name.lower(): name for name in sorted(nodes.columns)}
    found = next((lower[name] for name in LABEL_NAMES if name in lower), None)
    if found is None:
        raise ValueError(
            f"label is missing; it takes the column of {nodes.name} with classes or numbers, one "
            f"of {listed(nodes.columns)}. Give --label NAME (label=...)."
        )
    return found


def ids_of(nodes: Table, name: str) -> tuple[dict[str, int], NDArray[np.int64]]:
    """The node of every id, and the row of every node in the table.

    Nodes are sorted by id, by their numbers if all ids are numbers, so that a graph does not depend
    on the order of rows. An error names the lines of an id that is missing or there twice.
    """
    if not nodes.rows:
        raise ValueError(f"{nodes.name} has no rows below its header: give a row for each node")
    rows = dict[str, int]()
    for row, text in enumerate(nodes.column(name, "id").strings()):
        if text is None:
            raise ValueError(f"{nodes.where(row)}: {name} is empty; every node takes an id.")
        known = rows.setdefault(text.strip(), row)
        if known != row:
            raise ValueError(
                f"{nodes.where(row)}: {name} is {text[:60]!r}, which is there already "
                f"({nodes.where(known)}); every node takes an id of its own. Remove one of the "
                f"two, or give another column by --id, of {listed(nodes.columns)}."
            )
    numbers = {text: as_number(text) for text in rows}
    if None in numbers.values():
        ids = sorted(rows)
    else:
        ids = sorted(rows, key=lambda text: (numbers[text], text))
    order = np.fromiter((rows[text] for text in ids), np.int64, len(ids))
    return {text: node for node, text in enumerate(ids)}, order


def holds_numbers(nodes: Table, name: str, task: str) -> bool:
    """Whether a column of labels is one of numbers: as ``task`` says, or else by its values.

    Values with decimals are numbers, words and few different whole numbers are classes, and many
    different whole numbers may be either.
    """
    values, word = nodes.column(name, "label").parsed
    if task == "numbers" and word is not None:
        raise ValueError(
            f"{nodes.where(word)}: {name} is {str(nodes.columns[name].text[word])[:40]!r}, and "
            "task is 'numbers'; it takes a number, or nothing for a node to predict. Correct it, "
            "or give --task classes (task='classes')."
        )
    if task != "auto" or word is not None:
        return task == "numbers"
    filled = values[~np.isnan(values)]
    if not len(filled):
        return False  # which is refused as a column without classes
    if bool((filled != np.rint(filled)).any()):
        return True
    found = len(np.unique(filled))
    if found > MOST_CATEGORIES or (found > 2 and 2 * found > len(filled)):
        raise ValueError(
            f"label is {name!r}, which has {found:,} different whole numbers in {len(filled):,} "
            f"nodes of {nodes.name}: these may be numbers or classes. Give --task numbers "
            "(task='numbers') to predict their value, or --task classes (task='classes')."
        )
    return False


def numbers_in(nodes: Table, name: str | None) -> Tensor:
    """The number of every node as float32, NaN for none."""
    if name is None or name not in nodes.columns:
        return torch.full((nodes.rows,), torch.nan)
    return torch.from_numpy(numbers_of(nodes, name, "label")).float()


def targets_of(nodes: Table, name: str, task: str) -> tuple[Tensor, tuple[str, ...]]:
    """The targets of a column of labels, and the classes; none where they are numbers."""
    if not holds_numbers(nodes, name, task):
        classes = classes_of(nodes, name)
        return labels_of(nodes, name, classes)[0], classes
    numbers = numbers_in(nodes, name)
    if bool(numbers.isnan().all()):
        raise ValueError(f"{nodes.name} has no number in the column {name}: fill in some")
    return numbers, ()


def classes_of(nodes: Table, name: str) -> tuple[str, ...]:
    """The classes in the order of their numbers, or else of the alphabet.

    Beside numbers, words such as ``NaN`` are no class.
    """
    texts = [text.strip() for text in nodes.column(name, "label").strings() if text is not None]
    numbered = all(as_number(text) is not None or is_missing(text) for text in set(texts))
    if numbered:
        texts = [text for text in texts if not is_missing(text)]
    shortest = dict[str | Decimal, str]()  # of numbers that are equal, such as 1 and 1.0
    for text in sorted(set(texts), key=lambda text: (len(text), text)):
        shortest.setdefault(as_class(text), text)
    found, filled = set(shortest.values()), len(texts)
    if not found:
        raise ValueError(f"{nodes.name} has no label in the column {name}: label some nodes")
    if len(found) > 2 and 2 * len(found) > filled:
        raise ValueError(
            f"label is {name!r}, which has {len(found)} different values in {filled} nodes of "
            f"{nodes.name}; it takes a column of classes, with more nodes of each, or of numbers."
        )
    if numbered:
        return tuple(sorted(found, key=lambda text: (as_number(text) or 0.0, text)))
    return tuple(sorted(found))


def as_class(text: str) -> str | Decimal:
    """What a label is compared by: its number if it is one, or else its text."""
    text = text.strip()
    try:
        return text if as_number(text) is None else Decimal(text)
    except InvalidOperation:  # such as an exponent of twenty digits
        return text


def labels_of(nodes: Table, name: str | None, classes: Sequence[str]) -> tuple[Tensor, int]:
    """The class of every node, -1 for none, and how many nodes have one that is not known."""
    if name is None or name not in nodes.columns:
        return torch.full((nodes.rows,), -1), 0
    number = {as_class(text): at for at, text in enumerate(classes)}
    texts = nodes.columns[name].strings()
    of_text = {
        text: number.get(as_class(text), -1 if is_missing(text) else -2)
        for text in set(texts)
        if text is not None
    }
    found = [-1 if text is None else of_text[text] for text in texts]
    labels = torch.tensor(found, dtype=torch.long)
    return labels.clamp_min(-1), int((labels == -2).sum())


def parts_of(nodes: Table, name: str, labelled: Tensor) -> tuple[dict[str, Tensor], int]:
    """A mask for each part, and how many nodes in a part have no label and are left out of it."""
    masks = {part: torch.zeros(nodes.rows, dtype=torch.bool) for part in PARTS}
    for row, text in enumerate(nodes.column(name, "split-column").strings()):
        if text is None:
            continue
        part = _PART.get(text.strip().lower())
        if part is None:
            raise ValueError(
                f"{nodes.where(row)}: {name} is {text[:40]!r}; it takes train, val or test, or "
                "nothing for a node in no part."
            )
        masks[part][row] = True
    lost = int((torch.stack(list(masks.values())).any(0) & ~labelled).sum())
    return {part: mask & labelled for part, mask in masks.items()}, lost


def times_of(nodes: Table, name: str, labelled: Tensor) -> NDArray[np.float64]:
    """A column of dates or numbers as numbers; NaN for a node without a label that has none."""
    column = nodes.column(name, "split-by-time")
    values, wrong = column.parsed
    if wrong is not None:
        texts = column.text
        times = {text: as_time(text) for text in set(texts) if text and not is_missing(text)}
        for row, text in enumerate(texts):
            if text in times and times[text] is None:
                raise ValueError(
                    f"{nodes.where(row)}: {name} is {text[:40]!r}; it takes ISO dates such as "
                    "2024-05-17 or 2024-05-17T08:30, or numbers. Write all of it in one way."
                )
        found = [times.get(text) if text else None for text in texts]
        values = np.array([math.nan if one is None else one for one in found])
    absent = labelled.numpy() & ~np.isfinite(values)
    if absent.any():
        row = int(absent.argmax())
        raise ValueError(
            f"{nodes.where(row)}: {name} has no date, and the node has a label; it takes a date "
            f"for every labelled node ({int(absent.sum()):,} have none). Fill it in, or empty the "
            "label."
        )
    return values


def in_words(counts: Mapping[str, int]) -> str:
    """Counts by name, such as ``age 12, venue 3``."""
    return listed([f"{name} {count:,}" for name, count in counts.items()], 6)
