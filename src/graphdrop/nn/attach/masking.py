"""The two ways to mask a PyG layer: in one masked sum, or message by message."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn import conv
from torch_geometric.nn.aggr import MeanAggregation, SumAggregation
from torch_geometric.nn.conv import MessagePassing

from graphdrop.graph import Graph
from graphdrop.graph.masks import Mask
from graphdrop.kernels import aggregate
from graphdrop.nn.attach.edges import Edges, Ends
from graphdrop.nn.conv import MAX_SPARSE_BLOCKS, add_parts, multiply_blocks
from graphdrop.nn.features import LazyMatrix, Multiplied, SparseFeatures
from graphdrop.sampling.samplers import Draw

WEIGHTED_FEATURES: dict[Callable[..., Tensor], str | None] = {
    conv.GCNConv.message: "edge_weight",
    conv.GCN2Conv.message: "edge_weight",
    conv.APPNP.message: "edge_weight",
    conv.ChebConv.message: "norm",
    conv.SAGEConv.message: None,
    conv.GINConv.message: None,
}
"""Messages that are features times a weight, by the name of that weight."""
HOOKS = (
    "_propagate_forward_pre_hooks",
    "_propagate_forward_hooks",
    "_message_forward_pre_hooks",
    "_message_forward_hooks",
    "_aggregate_forward_pre_hooks",
    "_aggregate_forward_hooks",
)
"""With one of these hooks registered, PyG's own steps are used."""


class Terms(NamedTuple):
    """The terms of the sum or mean over neighbours: features times weights."""

    x: Tensor
    weight: Tensor | None
    rows: int
    """Number of destinations."""
    mean: bool


def sums_features(layer: Any) -> bool:
    """Whether a layer sums or averages weighted features, so that the kernel can do it."""
    kind = type(layer)
    return (
        kind.message in WEIGHTED_FEATURES
        and kind.aggregate is MessagePassing.aggregate
        and kind.update is MessagePassing.update
        and type(layer.aggr_module) in (SumAggregation, MeanAggregation)
        and layer.flow == "source_to_target"
        and not any(getattr(layer, hooks) for hooks in HOOKS)
    )


def weighted_features(
    layer: Any, both: Ends, options: dict[str, Any], *, any_type: bool = False
) -> Terms | None:
    """The terms of a call of `propagate`, or None if messages are not weighted features.

    Features of another type than float32 take single messages, unless `any_type`.
    """
    kind, x = type(layer), options.get("x")
    source, destination = x if isinstance(x, tuple | list) else (x, x)
    if not sums_features(layer):
        return None
    name = WEIGHTED_FEATURES[kind.message]
    given = None if name is None else options.get(name)
    weight = both.value if given is None else given
    if (
        not isinstance(source, Tensor)
        or source.dim() != 2
        or not (any_type or source.dtype == torch.float32)
        or (weight is not None and (weight.requires_grad or weight.dim() != 1))
    ):
        return None
    rows = (options.get("size") or (None, None))[1]
    if rows is None:
        rows = len(source if destination is None else destination)
    return Terms(source, weight, rows, type(layer.aggr_module) is MeanAggregation)


class Masking(NamedTuple):
    """The mask of one call of `propagate`; without one, everything is kept."""

    edges: Edges
    mask: Mask | None
    scale: Tensor | None
    """The factor of kept messages."""
    draw: Draw | None
    layer: int
    """The number of the layer."""

    def sum_terms(self, terms: Terms, graph: Graph | None = None) -> Tensor:
        """The masked sum or mean, `[rows, features]`, without storing messages.

        `graph` has weights that a mask before normalization acts on.
        """
        self._record(terms.x.shape[1], graph)
        if graph is None:
            graph = self.edges.with_weights(terms.weight, mean=terms.mean)
        if isinstance(terms.x, LazyMatrix):
            return LazyMatrix.of(MaskedSum(terms.x.matrix, graph, self.mask, self.scale))
        return _scale(aggregate(graph, terms.x, self.mask), self.scale)

    def mask_messages(self, sent: Tensor, layer: Any) -> Tensor:
        """Messages times their masks; all dimensions after that of edges are features."""
        if not isinstance(sent, Tensor):
            raise TypeError(
                f"message() of {layer} returned a {type(sent).__name__}: attach masks tensors"
            )
        size = len(self.edges.order)
        axis = layer.node_dim % sent.dim() if sent.dim() > 1 else 0
        if sent.shape[axis] != size:
            raise ValueError(
                f"message() of {layer} returned {sent.shape[axis]} messages along dimension "
                f"{axis} for {size} edges: attach masks one message per edge"
            )
        features = math.prod(sent.shape[axis + 1 :])
        self._record(features)
        mask = self.mask
        if mask is None or not sent.numel():
            return sent
        # several graphs at once on the same edges share their masks
        several = sent.reshape(-1, size, features)
        kept = [aggregate(self.edges.messages, one, mask) for one in several.unbind()]
        return _scale(torch.stack(kept).view(sent.shape), self.scale)

    def _record(self, features: int, graph: Graph | None = None) -> None:
        if self.draw is not None and self.mask is not None:
            self.draw.record(self.mask, graph or self.edges.counted, features, self.layer)


class MaskedSum(NamedTuple):
    """A masked sum of features that are not dense; the weights behind it are multiplied first."""

    x: Multiplied
    graph: Graph
    mask: Mask | None
    scale: Tensor | None
    """The factor of kept messages."""

    @property
    def shape(self) -> tuple[int, int]:
        """Destinations and features."""
        return self.graph.num_dst, self.x.shape[1]

    @property
    def device(self) -> torch.device:
        """Where the features are."""
        return self.x.device

    def matmul(self, weight: Tensor) -> Tensor:
        """The sum times weights, in the order that takes fewer operations at the edges."""
        features, outputs = weight.shape
        blocks = 1 if self.mask is None else self.mask.draws_per_edge(features)
        if (
            not isinstance(self.x, SparseFeatures)
            or blocks > MAX_SPARSE_BLOCKS
            or blocks * outputs > features
        ):
            return self.to_dense() @ weight
        # the products of a block lie side by side: each keeps its block's draw
        mask = None if self.mask is None else replace(self.mask, blocks=blocks)
        sums = aggregate(self.graph, multiply_blocks(self.x, weight, blocks), mask)
        return _scale(add_parts(sums, blocks), self.scale)

    def to_dense(self) -> Tensor:
        """The sum of the features as they are."""
        return _scale(aggregate(self.graph, self.x.to_dense(), self.mask), self.scale)


def _scale(out: Tensor, scale: Tensor | None) -> Tensor:
    return out if scale is None else out * scale
