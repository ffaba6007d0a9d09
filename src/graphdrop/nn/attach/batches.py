"""Attached layers in a mini-batch: edges by their ids, and weights by the whole graph's degrees."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.nn import conv
from torch_geometric.utils import add_remaining_self_loops

from graphdrop.graph import Graph, sorting
from graphdrop.io.devices import moved
from graphdrop.loading.batch import BatchGraph

NORMALIZING = (conv.GCNConv.forward, conv.GCN2Conv.forward, conv.APPNP.forward)
"""Layers that weigh edges by PyG's `gcn_norm`."""


def normalizes(layer: Any) -> bool:
    """Whether a layer weighs edges by the degrees of both ends."""
    return type(layer).forward in NORMALIZING and bool(layer.normalize)


@contextmanager
def normalized(
    layer: Any, batch: BatchGraph, arguments: tuple[Any, ...], options: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Context in which a layer takes its weights as given: those of the whole graph's `gcn_norm`.

    The value is the layer's arguments by name.
    """
    given = inspect.signature(type(layer).forward).bind(layer, *arguments, **options).arguments
    del given["self"]
    edge_index, weight = given["edge_index"], given.get("edge_weight")
    if not isinstance(edge_index, Tensor) or edge_index.layout is not torch.strided:
        raise TypeError(
            "edge_index is a sparse matrix; in a mini-batch it takes a tensor [2, E]. Pass "
            "batch.edge_index."
        )
    edges = edge_index.as_tensor() if isinstance(edge_index, EdgeIndex) else edge_index
    given["edge_index"], given["edge_weight"] = _weighted(layer, batch, edges, weight)
    layer.normalize = False
    try:
        yield given
    finally:
        layer.normalize = True


def _weighted(
    layer: Any, batch: BatchGraph, edge_index: Tensor, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    device = edge_index.device
    weight = torch.ones(edge_index.shape[1], device=device) if weight is None else weight
    importance = batch.given_importance
    if importance is not None:
        weight = weight * importance.to(device)
    loop_weight = None
    if layer.add_self_loops:
        loop_weight = 2.0 if getattr(layer, "improved", False) else 1.0
        edge_index, weight = add_remaining_self_loops(
            edge_index, weight, loop_weight, batch.num_nodes
        )
    degree = moved(batch.whole.pyg_degrees(loop_weight)[batch.n_id.cpu()], device)
    edge_index, weight = edge_index.to(degree.device), weight.to(degree.device)
    scale = degree.pow(-0.5).masked_fill_(degree == 0.0, 0.0)
    source, destination = edge_index if layer.flow == "source_to_target" else edge_index.flip(0)
    value = scale[source] * weight.double() * scale[destination]
    if importance is None:
        wanted = batch.whole.pyg_row_sums(loop_weight)[batch.n_id.cpu()].to(degree.device)
        total = torch.zeros_like(wanted).index_add_(0, destination, value)
        empty = total == 0.0
        value = (
            value * torch.where(empty, 1.0, wanted / torch.where(empty, 1.0, total))[destination]
        )
    return edge_index.to(device), value.float().to(device)


def batch_edges(graph: Graph, batch: BatchGraph) -> Tensor:
    """The number in the batch's `edge_index` of each edge of a layer's graph; -1 if not there.

    A layer may add self-loops to the edges of a batch. It keeps the order of parallel edges.
    """
    row, column, _ = batch.in_given_order
    key = row * batch.num_nodes + column
    order = torch.argsort(key, stable=True)
    key = key[order]
    wanted = (graph.edge_dst.long() * batch.num_nodes + graph.indices.long()).cpu()
    place = torch.searchsorted(key, wanted)
    if graph.rank is not None:
        place = place + graph.rank.cpu()
    there = place < len(key)
    there[there.clone()] = key[place[there]] == wanted[there]
    found = torch.full_like(wanted, -1)
    found[there] = order[place[there]]
    return found.to(graph.indices.device)


def with_global_ids(graph: Graph, batch: BatchGraph, edges: Tensor, *, apart: int = 0) -> Graph:
    """A layer's graph with the ids of the whole graph, and the ranks of its parallel edges.

    Args:
        graph: local numbers, ranks by occurrence.
        batch: whose nodes these are.
        edges: by `batch_edges`.
        apart: offset of the ids of destinations.
    """
    ids, of_whole, rank = batch.n_id.to(graph.indices), batch.whole.rank, graph.rank
    if rank is not None or of_whole is not None:
        occurrence = torch.zeros_like(edges) if rank is None else rank.long()
        known = torch.zeros_like(edges)
        if of_whole is not None:
            _, _, position = batch.in_given_order
            known = of_whole[position[edges.clamp_min(0).cpu()]].long().to(edges.device)
        rank = torch.where(edges < 0, occurrence, known)  # drawn twice is not parallel
    if rank is not None and not bool(rank.any()):
        rank = None
    return replace(
        graph,
        rank=None if rank is None else rank.to(torch.int32),
        dst_ids=ids[: graph.num_dst] + apart,
        src_ids=ids[: graph.num_src],
    )


def without_repetitions(graph: Graph) -> Graph:
    """The graph in which an edge that was drawn several times stands once."""
    key = graph.edge_dst.long() * graph.num_src + graph.indices
    rank = torch.zeros_like(key) if graph.rank is None else graph.rank.long()
    order = torch.from_numpy(np.lexsort((rank.cpu().numpy(), key.cpu().numpy()))).to(key.device)
    again = (key[order].diff() == 0) & (rank[order].diff() == 0)
    same = torch.zeros(graph.num_edges, dtype=torch.bool, device=key.device)
    same[order[1:][again]] = True
    if not bool(same.any()):
        return graph
    kept = ~same
    count = graph.indptr.new_zeros(graph.num_dst)
    count.index_add_(0, graph.edge_dst[kept].long(), torch.ones_like(graph.indices[kept]))
    indptr = torch.zeros_like(graph.indptr)
    torch.cumsum(count, 0, out=indptr[1:])
    indices = graph.indices[kept]
    t_indptr, t_indices, t_edge = sorting.transpose(indptr, indices, graph.num_src)
    return replace(
        graph,
        indptr=indptr,
        indices=indices,
        value=graph.value[kept],
        weight=graph.weight[kept],
        t_indptr=t_indptr,
        t_indices=t_indices,
        t_edge=t_edge,
        rank=None if graph.rank is None else graph.rank[kept],
        parent_edge=None if graph.parent_edge is None else graph.parent_edge[kept],
    )
