"""The `Data` of a batch: the attributes of its nodes and edges, taken from the whole `Data`."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.graph.csr import row_entries
from graphdrop.graph.validate import check_rows
from graphdrop.io.read_ahead import advise, ask_for
from graphdrop.loading.batch import BatchGraph
from graphdrop.loading.whole import WholeGraph


def node_numbers(nodes: Tensor | None, num_nodes: int) -> NDArray[Any]:
    """The numbers of the given nodes, each at most once; all by default."""
    if nodes is None:
        return np.arange(num_nodes)
    return check_rows(nodes, num_nodes).cpu().numpy()


def fill_batch(data: Data, graph: BatchGraph) -> Data:
    """A `Data` of the batch's nodes and edges, with `n_id`, `e_id` and `graph`."""
    whole, n_id = graph.whole, graph.n_id
    rows = np.repeat(np.arange(len(graph.indptr) - 1), np.diff(graph.indptr))
    e_id = torch.from_numpy(whole.e_id[graph.positions]).long()
    batch = copy.copy(data)
    for name, value in data.to_dict().items():
        if name == "edge_index" or not isinstance(value, Tensor):
            continue
        if data.is_node_attr(name):
            batch[name] = _rows(value, n_id)
        elif data.is_edge_attr(name):
            batch[name] = value.index_select(data.__cat_dim__(name, value), e_id)
    batch.edge_index = torch.from_numpy(np.stack([graph.columns, rows]).astype(np.int64))
    batch.num_nodes = len(n_id)
    batch.n_id, batch.e_id, batch.graph = n_id, e_id, graph
    if graph.importance is not None:
        batch.importance = graph.importance
    return batch


def with_sparse_rows(data: Data) -> Data:
    """The same `Data`; sparse features have the CSR form, of which rows are quickly taken."""
    x = data.get("x")
    if not isinstance(x, Tensor) or x.layout in (torch.strided, torch.sparse_csr):
        return data
    data = copy.copy(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of sparse tensors being new
        data.x = x.to_sparse_csr()
    return data


def _rows(value: Tensor, rows: Tensor) -> Tensor:
    """Some rows of a tensor, dense or in CSR form."""
    if value.layout is torch.strided:
        if advise(value, "rows"):
            ask_for(value, rows)
        return value.index_select(0, rows)
    entry, indptr = row_entries(value.crow_indices(), rows)
    entries = value.col_indices()[entry], value.values()[entry]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of sparse tensors being new
        return torch.sparse_csr_tensor(indptr, *entries, (len(rows), value.shape[1]))


def with_graph(batch: Data, whole: WholeGraph, importance: Tensor | None = None) -> Data:
    """Give a batch of another loader, such as PyG's, what our layers need: `batch.graph`.

    Args:
        batch: with `n_id`, `e_id` and, where its seeds stand first, `batch_size`.
        whole: the `WholeGraph` of the data that the loader reads.
        importance: the factors of edges, `[E]`, in the order of `edge_index`.

    Example:
        >>> from graphdrop.loading import WholeGraph
        >>> edges = torch.tensor([[1, 2], [0, 0]])
        >>> batch = Data(torch.ones(2, 1), edges[:, :1], n_id=torch.tensor([0, 1]))
        >>> batch.e_id, batch.batch_size = torch.tensor([0]), 1
        >>> with_graph(batch, WholeGraph(edges)).graph.num_outputs
        1
    """
    missing = [name for name in ("n_id", "e_id") if batch.get(name) is None]
    if missing:
        raise ValueError(
            f"batch has no {' and '.join(missing)}; it takes the ids of its nodes and edges in the "
            "whole graph. Use a loader that gives them, such as PyG's NeighborLoader."
        )
    columns, rows = batch.edge_index.cpu().numpy()
    positions = whole.position[batch.e_id.cpu().numpy()].astype(np.int64)
    order = np.lexsort((positions, rows))
    count = np.bincount(rows, minlength=len(batch.n_id))
    indptr = np.concatenate([[0], np.cumsum(count)])
    hops = batch.get("num_sampled_nodes")
    batch = copy.copy(batch)
    batch.graph = BatchGraph(
        whole,
        batch.n_id.cpu(),
        indptr,
        columns[order].astype(np.int32),
        positions[order],
        importance=None if importance is None else importance[torch.from_numpy(order)],
        hop_nodes=None if hops is None else [int(count) for count in hops],
        num_outputs=batch.get("batch_size"),
        order=order,
    )
    return batch
