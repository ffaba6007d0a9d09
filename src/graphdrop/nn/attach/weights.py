"""The weights of edges that a layer would normalize, and what they are in a mini-batch."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn import conv
from torch_geometric.utils import add_remaining_self_loops

from graphdrop.graph import Graph
from graphdrop.io.devices import to_device
from graphdrop.loading.batch import BatchGraph
from graphdrop.nn.attach.edges import split_edges

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
    destination, source, stored = split_edges(edge_index, layer.flow)
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
