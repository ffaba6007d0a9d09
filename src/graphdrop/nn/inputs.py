"""``Inputs``: checked and cached graphs and features of the calls of a model."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from graphdrop.graph import Graph, Normalization
from graphdrop.nn.cache import TensorCache
from graphdrop.nn.features import SPARSE_DENSITY, SparseFeatures
from graphdrop.nn.plan import takes_sparse
from graphdrop.sampling.rates import Rate
from graphdrop.sampling.samplers import Sampler

SPARSE_DEVICES = ("cpu", "cuda")
"""Devices on which features with few nonzeros are multiplied as a sparse matrix."""


class First(Protocol):
    """The layer that reads the features."""

    in_channels: int
    weight: Tensor
    sampler: Sampler | None


class Inputs:
    """Graphs and sparse features, computed on first use."""

    def __init__(self) -> None:
        self._known = TensorCache()

    def features(
        self, x: Tensor | SparseFeatures, first: Any, *, everything: bool = False
    ) -> Tensor | SparseFeatures:
        """Features as the first layer reads them: sparse if few are nonzero.

        Args:
            x: ``[nodes, in_channels]``, dense or sparse.
            first: the layer that reads them.
            everything: whether no mask is applied to features, so that they may be sparse.
        """
        check_features(x, first)
        if isinstance(x, SparseFeatures):
            return x
        dense = x.layout is torch.strided
        if x.requires_grad or (dense and not (everything or takes_sparse(first))):
            return x
        if x.dtype != torch.float32 or x.device.type not in SPARSE_DEVICES:
            return x.to_dense()

        def prepare() -> SparseFeatures | None:
            if dense and int(torch.count_nonzero(x)) > SPARSE_DENSITY * x.numel():
                return None  # and not x, which the cache would then keep alive
            return SparseFeatures.from_tensor(x)

        prepared: SparseFeatures | None = self._known.get(prepare, x, extra="features")
        return x if prepared is None else prepared

    def graph(
        self,
        edge_index: Tensor | Graph,
        weight: Tensor | None,
        nodes: int,
        normalization: Normalization,
    ) -> Graph:
        """The graph of these edges, normalized."""
        if isinstance(edge_index, Graph):
            if weight is not None:
                raise ValueError(
                    "edge_weight is given beside a Graph, which has its own weights: build it "
                    "with Graph.from_edge_index(edge_index, edge_weight=...)"
                )
            if edge_index.normalization is normalization:
                return edge_index

        def build() -> Graph:
            if isinstance(edge_index, Graph):
                return edge_index.normalized(normalization)
            return Graph.from_edge_index(edge_index, nodes, weight, normalization=normalization)

        graph: Graph = self._known.get(
            build, edge_index, weight, extra=("graph", nodes, normalization)
        )
        return graph

    def edges(self, graph: Graph, x: Tensor | SparseFeatures, rate: Rate) -> Tensor:
        """What a rate reads of the edges of a graph."""
        described: Tensor = self._known.get(
            lambda: rate.describe(graph, x.matrix if isinstance(x, SparseFeatures) else x),
            graph,
            x,
            *rate.buffers(),
            extra="edges",
        )
        return described

    def receptive_field(
        self, graph: Graph, x: Tensor | SparseFeatures, rows: Tensor, layers: int, *, itself: str
    ) -> tuple[list[Graph], Tensor | SparseFeatures]:
        """The part of a graph for each layer, and the rows of the input that the first reads.

        Args:
            graph: the whole graph.
            x: the features of its nodes.
            rows: the nodes whose outputs are wanted.
            layers: number of layers.
            itself: the option that reads the rows themselves, such as a residual, or empty; these
                rows must then be in the part.
        """

        def restrict() -> tuple[list[Graph], Tensor, SparseFeatures | None]:
            parts = graph.receptive_field(rows, layers)
            if itself and not all(_reads_itself(part) for part in parts[:-1]):
                raise ValueError(
                    f"{itself} reads every row itself, which rows= finds only in a graph with "
                    "self-loops: build it with self_loops=True and normalize it, or leave rows out"
                )
            nodes = parts[0].src_ids
            assert nodes is not None  # noqa: S101 - a part has ids
            selected = x.select(nodes.long()) if isinstance(x, SparseFeatures) else None
            return parts, nodes, selected

        sparse = x if isinstance(x, SparseFeatures) else None
        parts, nodes, selected = self._known.get(
            restrict, rows, graph, sparse, extra=("rows", layers, itself)
        )
        return parts, x[nodes] if isinstance(x, Tensor) else selected


def _reads_itself(part: Graph) -> bool:
    """Whether every destination is among the sources."""
    assert part.dst_ids is not None  # noqa: S101 - a part has ids
    assert part.src_ids is not None  # noqa: S101
    return bool(torch.isin(part.dst_ids, part.src_ids).all())


def check_features(x: Tensor | SparseFeatures, first: First) -> None:
    """Raise if the layer cannot read these features."""
    if not isinstance(x, Tensor | SparseFeatures):
        raise TypeError(
            f"x is of type {type(x).__name__}; it takes a tensor, dense or sparse, or "
            "SparseFeatures."
        )
    if len(x.shape) != 2 or x.shape[1] != first.in_channels:
        raise ValueError(
            f"x has shape {tuple(x.shape)}; it takes shape [nodes, {first.in_channels}]."
        )
    if isinstance(x, SparseFeatures):
        return
    if x.dtype != first.weight.dtype:
        raise TypeError(
            f"x has dtype {x.dtype}; it takes the model's dtype, {first.weight.dtype}. Use "
            f"x.to({first.weight.dtype})."
        )
    if x.requires_grad and x.layout is not torch.strided:
        raise ValueError(
            "x is sparse and requires a gradient, which sparse features do not pass on: "
            "use x.detach() or x.to_dense()"
        )
