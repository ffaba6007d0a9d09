"""The ends of edges, from any of the formats that PyG takes."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric import EdgeIndex


class Ends(NamedTuple):
    """Destinations and sources in the layer's order, and the values of a sparse matrix."""

    destination: Tensor
    source: Tensor
    value: Tensor | None = None


def ends(edge_index: Any, flow: str) -> Ends:
    """The ends of edges given as `edge_index [2, E]`, as `EdgeIndex` or as `torch.sparse`.

    A sparse matrix has destinations in its rows, as in PyG.
    """
    if not isinstance(edge_index, Tensor):
        raise TypeError(
            f"edge_index is of type {type(edge_index).__name__}; it takes a tensor [2, E], an "
            "EdgeIndex or a torch.sparse matrix. Of a SparseTensor use "
            ".to_torch_sparse_csr_tensor()."
        )
    if edge_index.layout is torch.sparse_coo:
        edge_index = edge_index.coalesce()
        row, column = edge_index.indices()
        return Ends(row, column, edge_index.values())
    if edge_index.layout is not torch.strided:
        if edge_index.layout is torch.sparse_csc:
            edge_index = edge_index.to_sparse_csr()
        length = edge_index.crow_indices().diff()
        row = torch.arange(len(length), device=length.device).repeat_interleave(length)
        return Ends(row, edge_index.col_indices(), edge_index.values())
    if isinstance(edge_index, EdgeIndex):
        edge_index = edge_index.as_tensor()
    first, second = edge_index
    return Ends(second, first) if flow == "source_to_target" else Ends(first, second)
