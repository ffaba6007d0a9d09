"""Attached layers in a mini-batch: edges by their ids, and weights by the whole graph's degrees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.nn import conv
from torch_geometric.utils import add_remaining_self_loops

from graphdrop.graph import Graph, sorting
from graphdrop.io.devices import to_device
from graphdrop.loading.batch import BatchGraph
from graphdrop.nn.attach.ends import ends

NORMALIZING = (conv.GCNConv.forward, conv.GCN2Conv.forward, conv.APPNP.forward)
"""Layers that weigh edges by PyG's `gcn_norm`."""


def normalizes(layer: Any) -> bool:
    """Whether a layer weighs edges by the degrees of both ends."""
    return type(layer).forward in NORMALIZING and bool(layer.normalize)


class Given(NamedTuple):
    """The edges of a call that a layer would normalize, self-loops added."""

    edge_index: Tensor
    weight: Tensor
    """Before normalization."""
    value: Tensor | None
    """After it, in a mini-batch, which cannot know it by its own edges; else None."""


def given_edges(
    layer: Any, batch: BatchGraph | None, nodes: int, edge_index: Any, weight: Tensor | None
) -> Given:
    """The edges of a call with the self-loops that `gcn_norm` adds, and their weights.

    In a mini-batch the weights are normalized by the degrees of the whole graph, and those of rows
    that lack edges are scaled as `BatchGraph` does.
    """
    if batch is not None and getattr(edge_index, "layout", None) is not torch.strided:
        raise TypeError(
            "edge_index is a sparse matrix; in a mini-batch it takes a tensor [2, E]. Pass "
            "batch.edge_index."
        )
    destination, source, stored = ends(edge_index, layer.flow)
    weight = stored if weight is None else weight
    # PyG weighs all self-loops by 1 where no weights are given
    loop_weight = (
        None if not layer.add_self_loops else 1.0 if weight is None else loop_weight_of(layer)
    )
    device = destination.device
    weight = torch.ones(len(destination), device=device) if weight is None else weight
    edge_index = torch.stack([source, destination])
    importance = None if batch is None else batch.given_importance
    if importance is not None:
        weight = weight * importance.to(device)
    if loop_weight is not None:
        edge_index, weight = add_remaining_self_loops(edge_index, weight, loop_weight, nodes)
    value = None
    if batch is not None:
        whole = batch.whole.pyg_graph(loop_weight)
        ids = batch.n_id.cpu()
        degree = to_device(row_sums(whole, whole.weight)[ids], device)
        scale = degree.pow(-0.5).masked_fill_(degree <= 0.0, 0.0)
        source, destination = edge_index
        value = scale[source] * weight.to(scale.dtype) * scale[destination]
        if importance is None:
            wanted = to_device(row_sums(whole, whole.value)[ids], device)
            total = torch.zeros_like(wanted).index_add_(0, destination, value.detach())
            empty = total == 0.0
            factor = torch.where(empty, 1.0, wanted / torch.where(empty, 1.0, total))[destination]
            value, weight = value * factor, weight * factor.to(weight.dtype)
        value = value.to(weight.dtype)
    if layer.flow != "source_to_target":
        edge_index = edge_index.flip(0)
    return Given(edge_index, weight, value)


def loop_weight_of(layer: Any) -> float | None:
    """The weight of the self-loops that a layer adds; None if it adds none."""
    if not layer.add_self_loops:
        return None
    return 2.0 if getattr(layer, "improved", False) else 1.0


def row_sums(whole: Graph, weight: Tensor) -> Tensor:
    """The sum of every row, `[nodes]` float64."""

    def make() -> Tensor:
        total = torch.zeros(whole.num_dst, dtype=torch.float64)
        return total.index_add_(0, whole.edge_dst.long(), weight.double())

    return whole.derived(("row sums", weight is whole.value), make)


def edge_numbers(whole: Graph, part: Graph) -> Tensor:
    """The number in a whole graph of each edge of a part, found by ids and rank; any if missing."""
    nodes = whole.num_src
    keys = whole.derived_from_structure(
        "keys of edges", lambda: whole.edge_dst.long() * nodes + whole.indices.long()
    )
    found = torch.searchsorted(keys, part.draw_dst.long() * nodes + part.draw_src.long())
    if part.rank is not None:
        found = found + part.rank
    return found.clamp_(max=max(0, whole.num_edges - 1))


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
