"""Graphs of other libraries as `edge_index [2, E]`, number of nodes and `edge_weight [E]`."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.sparse import issparse
from torch import Tensor

if TYPE_CHECKING:
    import networkx
    import scipy.sparse
    from torch_geometric.data import Data


def edges_of_data(data: "Data") -> tuple[Tensor, int | None, Tensor | None]:
    """The edges of a PyG `Data`, with its `edge_weight` where it has one."""
    edge_index = getattr(data, "edge_index", None)
    if edge_index is None:
        raise ValueError(
            f"data is {data!r}; it takes a PyG Data with an edge_index. Add one, or use another "
            "constructor of Graph."
        )
    return edge_index, data.num_nodes, getattr(data, "edge_weight", None)


def edges_of_scipy(
    matrix: "scipy.sparse.sparray | scipy.sparse.spmatrix",
) -> tuple[Tensor, int, Tensor]:
    """The stored entries `A[v, u]` of a square matrix as edges from u to v."""
    if not issparse(matrix):
        raise TypeError(
            f"matrix is of type {type(matrix).__name__}; it takes a scipy sparse matrix. Pass "
            "scipy.sparse.coo_array(matrix)."
        )
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            f"matrix has shape {matrix.shape}; it takes a square matrix, one row and one column "
            "per node."
        )
    entries = matrix.tocoo()
    if entries.data.dtype.kind not in "biuf":
        raise TypeError(f"matrix has dtype {entries.data.dtype}; it takes real numbers.")
    edge_index = np.stack([entries.col, entries.row])
    return (
        torch.from_numpy(edge_index),
        matrix.shape[0],
        torch.from_numpy(entries.data.astype(np.float64)),
    )


def edges_of_networkx(graph: "networkx.Graph[Any]", weight: str) -> tuple[Tensor, int, Tensor]:
    """The edges of a networkx graph, both ways where it is undirected (a self-loop once)."""
    if not hasattr(graph, "edges") or not hasattr(graph, "is_directed"):
        raise TypeError(f"graph is of type {type(graph).__name__}; it takes a networkx graph.")
    number = {node: index for index, node in enumerate(graph)}
    edges = list(graph.edges(data=weight, default=1.0))
    pairs = [(number[source], number[destination]) for source, destination, _ in edges]
    try:
        weights = np.array([w for _, _, w in edges], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"weight names the edge attribute {weight!r}, which is not a number everywhere "
            f"({error}): name another, or remove it"
        ) from error
    edge_index = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    if not graph.is_directed():
        proper = edge_index[0] != edge_index[1]
        edge_index = np.concatenate([edge_index, edge_index[::-1, proper]], axis=1)
        weights = np.concatenate([weights, weights[proper]])
    return torch.from_numpy(edge_index), len(number), torch.from_numpy(weights)
