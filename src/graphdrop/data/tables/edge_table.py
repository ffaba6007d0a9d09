"""What a table of edges says: pairs of node ids, and a weight for each if asked for."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.utils import coalesce, remove_self_loops, to_undirected

from graphdrop.data.edges import EdgeChanges, undirected_edges
from graphdrop.data.tables.kinds import numbers_of
from graphdrop.data.tables.options import TableOptions
from graphdrop.data.tables.table import Column, Table, is_unnamed, listed

ENDS = (
    ("source", "target"),
    ("src", "dst"),
    ("from", "to"),
    ("source_id", "target_id"),
    ("src_id", "dst_id"),
    ("from_id", "to_id"),
)


class Edges(NamedTuple):
    """Undirected edges."""

    edge_index: Tensor
    """``[2, E]``, both directions of every edge."""
    weight: Tensor | None
    """``[E]``; of repeated edges the mean."""
    changes: EdgeChanges
    unused: tuple[str, ...]
    """Columns that were not read."""


def edges_of(edges: Table, rows: Mapping[str, int], nodes: str, options: TableOptions) -> Edges:
    """The edges between known nodes; an error names the line and the id of an unknown one.

    Args:
        edges: the table.
        rows: the node of every id.
        nodes: what errors call the column of these ids.
        options: which columns hold the ids and the weights.
    """
    _check_header(edges, rows)
    weight, (first, second) = options.weight, end_columns(edges, rows, options)
    ends = [_places(edges, name, rows, nodes) for name in (first, second)]
    index = torch.from_numpy(np.stack(ends))
    unused = tuple(name for name in sorted(edges.columns) if name not in (first, second, weight))
    symmetric, changes = undirected_edges(index, len(rows))
    if weight is None:
        return Edges(symmetric, None, changes, unused)
    values = numbers_of(edges, weight, "weight")
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
        names = end_columns(edges, ids, options)
    except ValueError:  # no two columns hold these ids
        return False
    return all(_holds_ids(edges.columns[name], ids) for name in names)


def end_columns(edges: Table, ids: Container[str | None], options: TableOptions) -> tuple[str, str]:
    """The columns of ids: those asked for, two with usual names, or the only two that fit."""
    if options.source and options.target:
        for name, what in ((options.source, "source"), (options.target, "target")):
            edges.column(name, what)
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
    return all(text is None or text.strip() in ids for text in column.strings())


def _check_header(edges: Table, rows: Mapping[str, int]) -> None:
    """Refuse a list of edges without a header, whose first edge would be lost."""
    first = list(edges.columns)[:2]
    if len(first) == 2 and all(name in rows for name in first):
        raise ValueError(
            f"{edges.name} has no header: its first line is the edge {listed(first)}. "
            "Put source,target above it."
        )


def _places(edges: Table, name: str, rows: Mapping[str, int], nodes: str) -> np.ndarray:
    places = np.empty(edges.rows, dtype=np.int64)
    for row, text in enumerate(edges.columns[name].strings()):
        place = None if text is None else rows.get(text.strip())
        if place is None:
            given = "empty" if text is None else repr(text[:60])
            raise ValueError(
                f"{edges.where(row)}: {name} is {given}, which is no id in {nodes}; an edge takes "
                "two ids of nodes. Add the node, remove the edge, or name the column of ids with "
                "--id (id=...)."
            )
        places[row] = place
    return places
