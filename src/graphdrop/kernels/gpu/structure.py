"""A graph as the kernels read it: its edges by destination and by source, cut into segments.

Rows are cut into segments of bounded length, so that no program walks a hub's edges alone. All
arrays have a size that follows from the numbers of rows and edges, not from their degrees: they are
computed on the device without a synchronization. What a graph does not need of them is filled with
the row number ``num_rows``, at which a program ends at once.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from graphdrop.graph import Graph

SPAN = 512
"""The largest number of edges that one program sums."""


class Segments(NamedTuple):
    """The segments of all rows, in the order of edges; a row without edges has an empty one."""

    row: Tensor
    """The row of each segment, ``[rows + E // SPAN]`` int32."""
    begin: Tensor
    """Its first edge."""
    end: Tensor
    """The edge after its last."""
    slot: Tensor
    """The place of its sum among the partial sums, int32; -1 where it is the sum of its row."""
    long_row: Tensor
    """The rows of more than one segment, ``[E // SPAN]`` int32."""
    long_first: Tensor
    """The slot of their first segment, int32."""
    long_last: Tensor
    """The slot after that of their last, int32."""


def segments_of(indptr: Tensor, edges: int) -> Segments:
    """The segments of the rows of a CSR matrix."""
    span, rows, device = SPAN, indptr.shape[0] - 1, indptr.device
    if rows == 0:
        none = torch.zeros(0, dtype=torch.int32, device=device)
        return Segments(none, none, none, none, none, none, none)
    degree = indptr.diff().long()
    pieces = ((degree + span - 1) // span).clamp(min=1)
    long = degree > span
    after = pieces.cumsum(0)  # the number of segments up to and with each row
    number = torch.arange(rows + edges // span, device=device)
    row = torch.searchsorted(after, number, right=True)
    used = row < rows
    known = row.clamp(max=rows - 1)
    piece = number - (after - pieces).index_select(0, known)
    begin = indptr.index_select(0, known) + piece * span
    end = torch.minimum(begin + span, indptr.index_select(0, known + 1))
    slots = torch.where(long, pieces, 0).cumsum(0)  # the number of slots up to and with each row
    first_slot = slots - torch.where(long, pieces, 0)
    split = long.index_select(0, known) & used
    slot = torch.where(split, first_slot.index_select(0, known) + piece, -1)
    place = torch.arange(edges // span, device=device)
    long_row = torch.searchsorted(long.cumsum(0), place, right=True)
    found = long_row.clamp(max=rows - 1)
    first, last = first_slot.index_select(0, found), slots.index_select(0, found)
    return Segments(
        row.int(),
        begin.to(indptr.dtype),
        end.to(indptr.dtype),
        slot.int(),
        long_row.int(),
        first.int(),
        last.int(),
    )


def num_slots(edges: int) -> int:
    """The largest number of partial sums that long rows may have: at most two for each span."""
    return 2 * (edges // SPAN)


class Direction(NamedTuple):
    """The edges of a graph by destination, or by source (transposed)."""

    indptr: Tensor
    segments: Segments
    indices: Tensor
    value: Tensor
    row_ids: Tensor | None
    """The node id of each row, unless it is the number of the row."""
    column_ids: Tensor | None
    """The node id of each edge's column, unless it is the column."""
    rank: Tensor | None
    """The rank among parallel edges, if there are any."""
    edge: Tensor | None
    """The number of each edge in CSR order, unless they are in it."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.indptr.shape[0] - 1


def direction_of(graph: Graph, *, transposed: bool) -> Direction:
    """One direction of a graph, made once."""

    def make() -> Direction:
        if transposed:
            return Direction(
                graph.t_indptr,
                segments_of(graph.t_indptr, graph.t_indices.shape[0]),
                graph.t_indices,
                graph.t_value,
                graph.src_ids,
                None if graph.dst_ids is None else graph.t_draw_dst,
                graph.t_rank,
                graph.t_edge,
            )
        return Direction(
            graph.indptr,
            segments_of(graph.indptr, graph.num_edges),
            graph.indices,
            graph.value,
            graph.dst_ids,
            None if graph.src_ids is None else graph.draw_src,
            graph.rank,
            None,
        )

    return graph.derived(("triton direction", transposed), make)
