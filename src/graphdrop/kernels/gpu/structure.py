"""A graph as the kernels read it: its edges by destination and by source, cut into segments."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from graphdrop.graph import Graph
from graphdrop.kernels.gpu.segments import Segments, segments_of


class Direction(NamedTuple):
    """The edges of a graph by destination, or by source (transposed)."""

    indptr: Tensor
    segments: Segments
    indices: Tensor
    value: Tensor
    row_ids: Tensor
    """The node id of each row; empty if it is the number of the row."""
    column_ids: Tensor
    """The node id of each edge's column, ``[E]``; empty if it is the column."""
    rank: Tensor
    """The rank among parallel edges; empty if there are none."""
    edge: Tensor
    """The number of each edge in CSR order; empty if they are in it."""
    transposed: bool

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.indptr.shape[0] - 1

    @property
    def named_rows(self) -> bool:
        """Whether rows have ids."""
        return self.row_ids.shape[0] > 0

    @property
    def named_columns(self) -> bool:
        """Whether columns have ids."""
        return self.column_ids.shape[0] > 0

    @property
    def ranked(self) -> bool:
        """Whether there are parallel edges."""
        return self.rank.shape[0] > 0


TENSORS = len(Segments._fields) + 7
"""The number of tensors of one direction in a structure."""


def structure_of(graph: Graph) -> list[Tensor]:
    """A graph as a list of tensors, made once: a custom op takes no objects."""
    return graph.derived("triton structure", lambda: _tensors(graph))


def _tensors(graph: Graph) -> list[Tensor]:
    none = graph.indices.new_empty(0)

    def given(tensor: Tensor | None) -> Tensor:
        return none if tensor is None else tensor

    segments = graph.derived_from_structure(
        "segments", lambda: segments_of(graph.indptr, graph.num_edges)
    )
    t_segments = graph.derived_from_structure(
        "t_segments", lambda: segments_of(graph.t_indptr, graph.t_indices.shape[0])
    )
    columns = none if graph.src_ids is None else graph.draw_src
    t_columns = none if graph.dst_ids is None else graph.t_draw_dst
    forward = [
        graph.indptr, *segments, graph.indices, graph.value,
        given(graph.dst_ids), columns, given(graph.rank), none,
    ]  # fmt: skip
    backward = [
        graph.t_indptr, *t_segments, graph.t_indices, graph.t_value,
        given(graph.src_ids), t_columns, given(graph.t_rank), graph.t_edge,
    ]  # fmt: skip
    return [*forward, *backward]


def direction_of(structure: list[Tensor], *, transposed: bool) -> Direction:
    """One direction of a structure."""
    tensors = structure[TENSORS:] if transposed else structure[:TENSORS]
    count = len(Segments._fields)
    indptr, segments = tensors[0], Segments(*tensors[1 : 1 + count])
    indices, value, row_ids, column_ids, rank, edge = tensors[1 + count :]
    return Direction(indptr, segments, indices, value, row_ids, column_ids, rank, edge, transposed)
