"""`row_window`: some rows of a graph over all its columns, for forward passes alone."""

from __future__ import annotations

import torch
from torch import Tensor

from graphdrop.graph.csr import row_entries
from graphdrop.graph.graph import Graph


@torch.inference_mode(False)
def row_window(graph: Graph, rows: tuple[int, int] | Tensor) -> Graph:
    """The part that computes some rows and reads features of all columns, without a transpose.

    Unlike `Graph.rows` it neither renumbers columns nor sorts edges: of a range of rows it is a
    view, so that a large graph can be walked window by window. No gradient passes through it.

    Args:
        graph: a whole graph.
        rows: first and last row (exclusive), or row numbers.

    Example:
        >>> graph = Graph.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 0]]))
        >>> part = row_window(graph, (1, 3))
        >>> part.num_dst, part.num_src, part.dst_ids.tolist()
        (2, 3, [1, 2])
    """
    if graph.parent is not None:
        raise ValueError("graph is a part; row_window takes a whole graph. Use graph.parent.")
    kind = graph.indices
    if isinstance(rows, Tensor):
        numbers = rows.to(kind)
        edge, indptr = row_entries(graph.indptr, rows)
        chosen = [part[edge] for part in (graph.indices, graph.weight, graph.value)]
        rank = None if graph.rank is None else graph.rank[edge]
    else:
        first, last = rows
        numbers = torch.arange(first, last, dtype=kind.dtype, device=kind.device)
        begin, end = int(graph.indptr[first]), int(graph.indptr[last])
        indptr = graph.indptr[first : last + 1] - begin
        edge = torch.arange(begin, end, dtype=kind.dtype, device=kind.device)
        chosen = [part[begin:end] for part in (graph.indices, graph.weight, graph.value)]
        rank = None if graph.rank is None else graph.rank[begin:end]
    indices, weight, value = chosen
    none = kind.new_empty(0)
    part = Graph(
        indptr=indptr,
        indices=indices,
        weight=weight,
        value=value,
        normalization=graph.normalization,
        # as many columns as the graph has, and no entry in any of them
        t_indptr=indptr.new_zeros(1).expand(graph.num_src + 1),
        t_indices=none,
        t_edge=none,
        rank=rank,
        dst_ids=numbers,
        parent=graph,
        parent_edge=edge,
    )
    part.derived_from_structure("t_chunks", lambda: torch.zeros(1, dtype=torch.int64))
    return part
