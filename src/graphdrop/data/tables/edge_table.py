"""What a table of edges says: pairs of node ids, and a weight for each if asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.utils import coalesce, remove_self_loops, to_undirected

from graphdrop.data.edges import EdgeChanges, undirected_edges
from graphdrop.data.tables.kinds import numbers_of
from graphdrop.data.tables.table import Table, is_unnamed, listed

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


def edges_of(edges: Table, rows: Mapping[str, int], nodes: str, weight: str | None) -> Edges:
    """The edges between known nodes; an error names the line and the id of an unknown one.

    Args:
        edges: the table.
        rows: the node of every id.
        nodes: what errors call the column of these ids.
        weight: the column of weights.
    """
    _check_header(edges, rows)
    first, second = _ends(edges, weight)
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


def end_ids(edges: Table, weight: str | None) -> set[str]:
    """The ids that edges name; empty cells are left out."""
    texts = (edges.columns[name].strings() for name in _ends(edges, weight))
    return {text.strip() for column in texts for text in column if text is not None}


def _ends(edges: Table, weight: str | None) -> tuple[str, str]:
    """The columns of ids: two with usual names, or the only two that have a name."""
    lower = {name.lower(): name for name in sorted(edges.columns)}
    for first, second in ENDS:
        if first in lower and second in lower:
            return lower[first], lower[second]
    names = [name for name in edges.columns if name != weight and not is_unnamed(name)]
    if len(names) < 2:
        raise ValueError(
            f"{edges.name} has {len(names)} column: give two, source and target, with node ids"
        )
    if len(names) > 2:
        raise ValueError(
            f"{edges.name} has the columns {listed(names)}; it takes two with node ids, named "
            "source and target, src and dst, or from and to. Rename them, or remove all others "
            "(--weight names a column of weights)."
        )
    return names[0], names[1]


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
                "two ids of nodes. Add the node, or remove the edge."
            )
        places[row] = place
    return places
