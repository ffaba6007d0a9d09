"""Which column of a table is what: ids, targets, parts of the split and times; ends and weights."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.utils import coalesce, remove_self_loops, to_undirected

from graphdrop.data.edges import EdgeChanges, undirected_edges
from graphdrop.data.tables.table import (
    MOST_CATEGORIES,
    Column,
    Table,
    as_number,
    as_time,
    is_missing,
    is_unnamed,
    listed,
)

ID_NAMES = ("id", "node_id", "node", "nodeid", "name")
LABEL_NAMES = ("label", "class", "y", "target")
ENDS = (
    ("source", "target"),
    ("src", "dst"),
    ("from", "to"),
    ("source_id", "target_id"),
    ("src_id", "dst_id"),
    ("from_id", "to_id"),
)
PARTS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}


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
        given = [name.strip() for name in given.split(",")] if isinstance(given, str) else given
        return tuple(name for name in given or () if name) or None


class Edges(NamedTuple):
    """Undirected edges."""

    edge_index: Tensor
    """``[2, E]``, both directions of every edge."""
    weight: Tensor | None
    """``[E]``; of repeated edges the mean."""
    changes: EdgeChanges
    unused: tuple[str, ...]
    """Columns that were not read."""


def read_edges(edges: Table, rows: Mapping[str, int], nodes: str, options: TableOptions) -> Edges:
    """The edges between known nodes; an error names the line and the id of an unknown one.

    Args:
        edges: the table.
        rows: the node of every id.
        nodes: what errors call the column of these ids.
        options: which columns hold the ids and the weights.
    """
    header = list(edges.columns)[:2]
    if len(header) == 2 and all(name in rows for name in header):
        raise ValueError(
            f"{edges.name} has no header: its first line is the edge {listed(header)}. "
            "Put source,target above it."
        )
    weight, names = options.weight, find_ends(edges, rows, options)
    ends = np.empty((2, edges.rows), dtype=np.int64)
    for name, end in zip(names, ends, strict=True):
        for row, text in enumerate(edges.columns[name].strings):
            place = None if text is None else rows.get(text)
            if place is None:
                given = "empty" if text is None else repr(text[:60])
                raise ValueError(
                    f"{edges.where(row)}: {name} is {given}, which is no id in {nodes}; an edge "
                    "takes two ids of nodes. Add the node, remove the edge, or name the column of "
                    "ids with --id (id=...)."
                )
            end[row] = place
    unused = tuple(name for name in sorted(edges.columns) if name not in (*names, weight))
    symmetric, changes = undirected_edges(torch.from_numpy(ends), len(rows))
    if weight is None:
        return Edges(symmetric, None, changes, unused)
    values = edges.numbers(weight, "weight")
    wrong = np.isnan(values) | (values <= 0)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"{edges.where(row)}: {weight} is {'empty' if np.isnan(values[row]) else values[row]}; "
            "a weight takes a number above 0. Correct it, or remove the edge."
        )
    # Sorted by both ends and weight first: a mean depends on the order of its terms.
    low, high = np.sort(ends, axis=0)
    order = np.lexsort((values, high, low))
    index = torch.from_numpy(np.stack([low, high])[:, order])
    weights = torch.from_numpy(values[order])
    once, weights = coalesce(index, weights, num_nodes=len(rows), reduce="mean")
    proper, weights = remove_self_loops(once, weights)
    symmetric, weights = to_undirected(proper, weights, num_nodes=len(rows))
    return Edges(symmetric, weights.float(), changes, unused)


def are_ends_among(edges: Table, ids: Container[str | None], options: TableOptions) -> bool:
    """Whether the edges have two columns of ends whose cells are all among these ids, or empty."""
    try:
        names = find_ends(edges, ids, options)
    except ValueError:  # no two columns hold these ids
        return False
    return all(_holds_ids(edges.columns[name], ids) for name in names)


def find_ends(edges: Table, ids: Container[str | None], options: TableOptions) -> tuple[str, str]:
    """The columns of ids: those asked for, two with usual names, or the only two that fit."""
    if options.source and options.target:
        edges.column(options.source, "source")
        edges.column(options.target, "target")
        return options.source, options.target
    lower = {name.lower(): name for name in sorted(edges.columns)}
    for first, second in ENDS:
        if first in lower and second in lower:
            return lower[first], lower[second]
    names = [name for name in edges.columns if name != options.weight and not is_unnamed(name)]
    if len(names) < 2:
        raise ValueError(
            f"{edges.name} has {len(names)} column: give two, source and target, with node ids"
        )
    if len(names) > 2:
        fitting = [name for name in names if _holds_ids(edges.columns[name], ids)]
        if len(fitting) != 2:
            raise ValueError(
                f"{edges.name} has the columns {listed(names)}, and {len(fitting)} of them hold "
                "node ids alone; it takes two. Name them with --source-column and --target-column "
                "(source=..., target=...), or call them source and target."
            )
        names = fitting
    return names[0], names[1]


def _holds_ids(column: Column, ids: Container[str | None]) -> bool:
    return all(text is None or text in ids for text in column.strings)


def find_ids(nodes: Table, edges: Table, options: TableOptions) -> str:
    """The column of ids: the one asked for, one with a usual name, or the one that edges name.

    Edges name a column whose cells all differ and include every end of an edge. A column of numbers
    without a name is passed over: pandas writes the numbers of rows there.
    """
    if options.id:
        nodes.column(options.id, "id")
        return options.id
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
    fitting = [name for name in usable if are_ids(nodes.columns[name], edges, options)]
    if len(fitting) > 1:
        raise ValueError(
            f"id is missing and the edges fit several columns of {nodes.name}: {listed(fitting)}. "
            "Give --id NAME (id=...)."
        )
    return fitting[0] if fitting else usable[0]  # no column fits: an error says why


def are_ids(column: Column, edges: Table, options: TableOptions) -> bool:
    """Whether the cells of a column all differ and include every end of an edge."""
    cells = set(column.strings)
    distinct = len(cells) == len(column) and None not in cells
    return distinct and are_ends_among(edges, cells, options)


def find_labels(nodes: Table, asked: str | None) -> str:
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


def read_ids(nodes: Table, name: str) -> tuple[dict[str, int], NDArray[np.int64]]:
    """The node of every id, and the row of every node in the table.

    Nodes are sorted by id, by their numbers if all ids are numbers, so that a graph does not depend
    on the order of rows. An error names the lines of an id that is missing or there twice.
    """
    if not nodes.rows:
        raise ValueError(f"{nodes.name} has no rows below its header: give a row for each node")
    rows = dict[str, int]()
    for row, text in enumerate(nodes.column(name, "id").strings):
        if text is None:
            raise ValueError(f"{nodes.where(row)}: {name} is empty; every node takes an id.")
        known = rows.setdefault(text, row)
        if known != row:
            raise ValueError(
                f"{nodes.where(row)}: {name} is {text[:60]!r}, which is there already "
                f"({nodes.where(known)}); every node takes an id of its own. Remove one of the "
                f"two, or give another column by --id, of {listed(nodes.columns)}."
            )
    numbers = {text: as_number(text) for text in rows}
    numbered = None not in numbers.values()
    ids = sorted(rows, key=lambda text: (numbers[text], text) if numbered else text)
    order = np.fromiter((rows[text] for text in ids), np.int64, len(ids))
    return {text: node for node, text in enumerate(ids)}, order


def read_targets(nodes: Table, name: str, task: str) -> tuple[Tensor, tuple[str, ...]]:
    """The targets of a column of labels, and the classes; none where they are numbers."""
    if not _holds_numbers(nodes, name, task):
        classes = _find_classes(nodes, name)
        return read_classes(nodes, name, classes)[0], classes
    numbers = read_numbers(nodes, name)
    if bool(numbers.isnan().all()):
        raise ValueError(f"{nodes.name} has no number in the column {name}: fill in some")
    return numbers, ()


def _holds_numbers(nodes: Table, name: str, task: str) -> bool:
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
    filled = values[~np.isnan(values)]
    if task != "auto" or word is not None or not len(filled):  # without any, no class is found
        return task == "numbers"
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


def read_numbers(nodes: Table, name: str | None) -> Tensor:
    """The number of every node as float32, NaN for none."""
    if name is None or name not in nodes.columns:
        return torch.full((nodes.rows,), torch.nan)
    return torch.from_numpy(nodes.numbers(name, "label")).float()


def _find_classes(nodes: Table, name: str) -> tuple[str, ...]:
    """The classes in the order of their numbers, or else of the alphabet.

    Beside numbers, words such as ``NaN`` are no class.
    """
    texts = [text for text in nodes.columns[name].strings if text is not None]
    numbered = all(as_number(text) is not None or is_missing(text) for text in set(texts))
    if numbered:
        texts = [text for text in texts if not is_missing(text)]
    shortest = dict[str | Decimal, str]()  # of numbers that are equal, such as 1 and 1.0
    for text in sorted(set(texts), key=lambda text: (len(text), text)):
        shortest.setdefault(_compare_as(text), text)
    found, filled = set(shortest.values()), len(texts)
    if not found:
        raise ValueError(f"{nodes.name} has no label in the column {name}: label some nodes")
    if len(found) > 2 and 2 * len(found) > filled:
        raise ValueError(
            f"label is {name!r}, which has {len(found)} different values in {filled} nodes of "
            f"{nodes.name}; it takes a column of classes, with more nodes of each, or of numbers."
        )
    return tuple(sorted(found, key=lambda text: (as_number(text) or 0.0 if numbered else 0, text)))


def _compare_as(text: str) -> str | Decimal:
    """What a label is compared by: its number if it is one, or else its text."""
    try:
        return text if as_number(text) is None else Decimal(text)
    except InvalidOperation:  # such as an exponent of twenty digits
        return text


def read_classes(nodes: Table, name: str | None, classes: Sequence[str]) -> tuple[Tensor, int]:
    """The class of every node, -1 for none, and how many nodes have one that is not known."""
    if name is None or name not in nodes.columns:
        return torch.full((nodes.rows,), -1), 0
    number = {_compare_as(text): i for i, text in enumerate(classes)}
    texts = nodes.columns[name].strings
    of_text = {
        text: -1 if text is None else number.get(_compare_as(text), -1 if is_missing(text) else -2)
        for text in set(texts)
    }
    labels = torch.tensor([of_text[text] for text in texts], dtype=torch.long)
    return labels.clamp_min(-1), int((labels == -2).sum())


def read_parts(nodes: Table, name: str, labelled: Tensor) -> tuple[dict[str, Tensor], int]:
    """A mask for each part, and how many nodes in a part have no label and are left out of it."""
    part_of = {word: part for part, words in PARTS.items() for word in words}
    masks = {part: torch.zeros(nodes.rows, dtype=torch.bool) for part in PARTS}
    for row, text in enumerate(nodes.column(name, "split-column").strings):
        if text is None:
            continue
        part = part_of.get(text.lower())
        if part is None:
            raise ValueError(
                f"{nodes.where(row)}: {name} is {text[:40]!r}; it takes train, val or test, or "
                "nothing for a node in no part."
            )
        masks[part][row] = True
    lost = int((torch.stack(list(masks.values())).any(0) & ~labelled).sum())
    return {part: mask & labelled for part, mask in masks.items()}, lost


def read_times(nodes: Table, name: str, labelled: Tensor) -> NDArray[np.float64]:
    """A column of dates or numbers as numbers; NaN for a node without a label that has none."""
    column = nodes.column(name, "split-by-time")
    values, wrong = column.parsed
    if wrong is not None:
        texts = column.strings
        times = {
            text: math.nan if text is None or is_missing(text) else as_time(text)
            for text in set(texts)
        }
        row = next((row for row, text in enumerate(texts) if times[text] is None), None)
        if row is not None:
            raise ValueError(
                f"{nodes.where(row)}: {name} is {str(texts[row])[:40]!r}; it takes ISO dates such "
                "as 2024-05-17 or 2024-05-17T08:30, or numbers. Write all of it in one way."
            )
        values = np.array([times[text] for text in texts], dtype=float)
    absent = labelled.numpy() & ~np.isfinite(values)
    if absent.any():
        row = int(absent.argmax())
        raise ValueError(
            f"{nodes.where(row)}: {name} has no date, and the node has a label; it takes a date "
            f"for every labelled node ({int(absent.sum()):,} have none). Fill it in, or empty the "
            "label."
        )
    return values
