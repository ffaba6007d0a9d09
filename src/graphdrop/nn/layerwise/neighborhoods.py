"""`Neighborhoods`: the edges into a range of nodes as a small graph of its own, with global ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from graphdrop.graph.csr import row_entries
from graphdrop.nn.layerwise.reach import with_neighbors

EDGES = 1 << 19
"""Rows are computed together while they have so many edges."""


class Local(NamedTuple):
    """A small graph: some nodes, and every node that they read."""

    nodes: Tensor
    """Ids of its nodes, the wanted ones first."""
    wanted: int
    """How many are wanted."""
    edge_index: Tensor
    """All edges into the wanted nodes, in the numbers of this graph."""
    edge: Tensor
    """The position of each of these edges in the whole graph's `edge_index`."""


class Neighborhoods:
    """The edges of a graph by destination.

    Args:
        edge_index: `[2, E]` as in PyG, sources above destinations.
        nodes: number of nodes.
    """

    def __init__(self, edge_index: Tensor, nodes: int) -> None:
        source, destination = edge_index
        # stable, so that parallel edges keep their order, which masks distinguish
        self.order = torch.argsort(destination, stable=True)
        self.source = source[self.order]
        self.indptr = torch.zeros(nodes + 1, dtype=torch.int64)
        torch.cumsum(torch.bincount(destination, minlength=nodes), 0, out=self.indptr[1:])

    def spans(self, batch_size: int | None, rows: Tensor | None) -> Iterator[Tensor]:
        """The wanted nodes, a batch at a time: so many rows, or so many edges."""
        wanted = torch.arange(len(self.indptr) - 1) if rows is None else rows
        if batch_size is not None:
            for first in range(0, len(wanted), batch_size):
                yield wanted[first : first + batch_size]
            return
        ends = self.indptr.diff()[wanted].add_(1).cumsum(0)
        first = 0
        while first < len(wanted):
            before = int(ends[first - 1]) if first else 0
            last = int(torch.searchsorted(ends, before + EDGES, right=True))
            yield wanted[first : max(last, first + 1)]
            first = max(last, first + 1)

    def read_by(self, rows: Tensor | None) -> Tensor | None:
        """Some nodes and those that they read, in increasing order; None for all nodes."""
        return with_neighbors(self.indptr, self.source, rows)

    def of(self, wanted: Tensor) -> Local:
        """The neighborhood of nodes, which are in increasing order."""
        edge, offsets = row_entries(self.indptr, wanted)
        source = self.source[edge].long()
        place = torch.searchsorted(wanted, source).clamp_(max=max(0, len(wanted) - 1))
        inside = wanted[place] == source if len(wanted) else source < 0
        others, number = source[~inside].unique(return_inverse=True)
        place[~inside] = number + len(wanted)
        row = torch.arange(len(wanted)).repeat_interleave(offsets.diff())
        nodes = torch.cat([wanted, others])
        return Local(nodes, len(wanted), torch.stack([place, row]), self.order[edge])
