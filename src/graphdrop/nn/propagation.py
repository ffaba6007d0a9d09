"""``MixedOrderPropagation``: features averaged over neighborhoods of growing order, sampled."""

from __future__ import annotations

import copy
from typing import Literal, cast

import torch
from torch import Tensor

from graphdrop.graph import Graph, Normalization
from graphdrop.graph.masks import Sharing
from graphdrop.kernels import aggregate
from graphdrop.nn.conv import LayerPass, drop_features
from graphdrop.nn.features import SparseFeatures
from graphdrop.nn.inputs import check_batch
from graphdrop.nn.sampled_layer import SampledLayer
from graphdrop.sampling.estimators import Concrete, Estimator
from graphdrop.sampling.samplers import Draw, Sampler

HOP_SHIFT = 32
"""Every hop of a pass has its own random stream."""


class MixedOrderPropagation(SampledLayer):
    r"""Mixed-order propagation: the mean of the features after 0, 1, ... ``orders`` hops.

    .. math:: \bar X = \frac{1}{K + 1} \sum_{k=0}^{K} \hat A^k X

    It has no weights: an MLP behind it is the network of GRAND (Feng et al., 2020). A sampler with
    a draw per node or per feature of a node (``DropNode``, ``DropOut``) masks ``X`` once, before
    all hops, as GRAND does. One with a draw per edge (``DropEdge``, ``GraphDropConnect``) masks
    :math:`\hat A` in every hop anew. In training every call samples new masks; after ``eval()``
    the expected mask is used.

    The hops are linear, so that a matrix of weights may stand before them, where features are
    sparse, in place of behind them, where they are dense:

    .. math:: \bar X W = \frac{1}{K + 1} \sum_{k=0}^{K} \hat A^k (X W)

    ``propagation(x, edge_index, weight=weight)`` computes the right side, whose hops have as many
    channels as ``weight`` has columns. It is the same for nodes, features and whole edges; blocks
    of ``GraphDropConnect`` are then blocks of these channels.

    With ``combine="concat"`` the hops stay apart, side by side, :math:`[X, \hat A X, \ldots,
    \hat A^K X]`, so that what follows has weights of its own for a node's features and for each of
    its neighborhoods. ``weight`` then has ``(orders + 1) * features`` rows.

    Args:
        orders: the number of hops :math:`K`; 0 leaves the features as they are.
        sampler: samples nodes, features or connections; ``None`` keeps all.
        normalization: ``sym``, ``row`` or ``paper`` (``Normalization``); self-loops are added.
        estimator: gradient estimator for a learned rate; by default ``Concrete()``.
        seed: seed of the masks; by default drawn by torch's generator.
        combine: ``"mean"`` of the hops, or ``"concat"``.

    Example:
        >>> from graphdrop import DropNode
        >>> propagation = MixedOrderPropagation(2, DropNode(0.5, rescale=True)).eval()
        >>> propagation(torch.eye(2), torch.tensor([[0, 1], [1, 0]])).tolist()
        [[0.666..., 0.333...], [0.333..., 0.666...]]
    """

    def __init__(
        self,
        orders: int = 8,
        sampler: Sampler | None = None,
        *,
        normalization: Normalization | str = Normalization.SYM,
        estimator: Estimator | None = None,
        seed: int | None = None,
        combine: Literal["mean", "concat"] = "mean",
    ) -> None:
        super().__init__()
        if orders < 0:
            raise ValueError(f"orders is {orders}; it takes a number of at least 0.")
        if sampler is not None:
            _check_sampler(sampler)
        self.orders, self.combine = orders, combine
        self.sampler = copy.deepcopy(sampler)
        self.normalization = Normalization.of(normalization)
        learned = sampler is not None and any(True for _ in sampler.rate.parameters())
        self.estimator = Concrete() if learned and estimator is None else estimator
        self.temperature = None if self.estimator is None else self.estimator.temperature
        self.start_stream(int(torch.randint(2**63 - 1, ())) if seed is None else seed)

    @property
    def K(self) -> int:  # noqa: N802 - as PyG names the hops of APPNP; mini-batches read it
        """The number of hops."""
        return self.orders

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(
        self,
        x: Tensor | SparseFeatures,
        edge_index: Tensor | Graph,
        edge_weight: Tensor | None = None,
        *,
        weight: Tensor | None = None,
    ) -> Tensor:
        """Features ``[nodes, features]`` to propagated ones ``[nodes, features or channels]``.

        Args:
            x: dense features; with ``weight`` they may be sparse.
            edge_index: ``[2, E]`` as in PyG, or a ``Graph``.
            edge_weight: ``[E]``, 1 by default.
            weight: ``[features, channels]``, multiplied behind the mask of features and before
                the hops; ``None`` propagates the features themselves. With ``combine="concat"``
                it has rows for every hop, one after the other.
        """
        if weight is None and isinstance(x, SparseFeatures):
            raise TypeError(
                "x is of type SparseFeatures; without weight it takes a dense tensor. Pass weight, "
                "or x as a tensor."
            )
        nodes = x.shape[0]
        batch = self.in_batch
        if batch is None:
            graph = self.inputs.graph(edge_index, edge_weight, nodes, self.normalization)
        else:
            check_batch(batch, nodes, None)
            graph = batch.square(self.normalization)
        draw, number = self.next_draw(training=self.training)
        if self._keeps_all(draw):
            if isinstance(x, SparseFeatures) or weight is not None or x.requires_grad:
                return self._mix(x, graph, None, number, weight=weight)
            kept: Tensor = self.inputs._known.get(
                lambda: self._mix(x, graph, None, number), x, graph, extra=("kept", self.orders)
            )
            return kept
        return self._mix(x, graph, self.sampler, number, draw, weight=weight)

    def _keeps_all(self, draw: Draw | None) -> bool:
        """Whether no mask acts, so that the result depends on the features and the graph alone."""
        if self.sampler is None or self.sampler.rate.keeps_all:
            return True
        return self.sampler.rescale if draw is None else draw.keeps_all

    def _mix(
        self,
        x: Tensor | SparseFeatures,
        graph: Graph,
        sampler: Sampler | None,
        number: int,
        draw: Draw | None = None,
        *,
        weight: Tensor | None = None,
    ) -> Tensor:
        hops = sampler
        if sampler is not None and sampler.sharing is Sharing.SOURCE:
            if weight is not None and sampler.blocks == 1:  # a node's draw masks all channels alike
                x, weight = x.matmul(weight), None
            mask = sampler.mask(graph, draw, number)
            x = drop_features(x, sampler, graph, LayerPass(draw, number, None, mask), mask)
            hops = None
        if weight is not None and self.combine == "concat":
            # (X W_0 + A (X W_1 + A X W_2)): the hops have as many channels as the output
            parts = weight.chunk(self.orders + 1)
            products = x.matmul(torch.cat(parts, 1)).chunk(self.orders + 1, 1)
            out = products[-1]
            for hop in range(self.orders):
                out = self._hop(out.contiguous(), graph, hops, draw, number=number, hop=hop)
                out = out + products[-2 - hop]
            return out
        state = total = cast("Tensor", x) if weight is None else x.matmul(weight)
        apart = [state]
        for hop in range(self.orders):
            state = self._hop(state, graph, hops, draw, number=number, hop=hop)
            if self.combine == "concat":
                apart.append(state)
            else:
                total = total + state
        return torch.cat(apart, 1) if self.combine == "concat" else total / (self.orders + 1)

    @staticmethod
    def _hop(
        state: Tensor,
        graph: Graph,
        sampler: Sampler | None,
        draw: Draw | None,
        *,
        number: int,
        hop: int,
    ) -> Tensor:
        if sampler is None:
            return aggregate(graph, state)
        mask = sampler.mask(graph, draw, number | hop << HOP_SHIFT)
        if draw is not None:
            draw.record(mask, graph, state.shape[1], number)
        out, factor = aggregate(graph, state, mask), sampler.row_factor(graph, draw, number, mask)
        return out if factor is None else out * factor

    def extra_repr(self) -> str:
        """The number of hops."""
        return f"orders={self.orders}, combine={self.combine}"


def _check_sampler(sampler: Sampler) -> None:
    """Raise if the sampler needs more than nodes, features or edges to mask."""
    if not isinstance(sampler, Sampler):
        raise TypeError(
            f"sampler is of type {type(sampler).__name__}; it takes a Sampler such as "
            "DropNode(0.5), or None."
        )
    if sampler.needs_earlier_layers or sampler.needs_weights or sampler.reads_edges:
        raise ValueError(
            f"sampler is {type(sampler).__name__} with options that need other layers, weights or "
            "the features of edges; a propagation takes DropNode, DropOut, DropEdge or "
            "GraphDropConnect with one rate. Use one of these, or graphdrop.GCN."
        )
