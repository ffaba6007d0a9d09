"""``Inputs``: checked and cached graphs and features of the calls of a model, and its batches."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from graphdrop.graph import Graph, Normalization
from graphdrop.loading.batch import BatchGraph
from graphdrop.nn.cache import TensorCache
from graphdrop.nn.features import SPARSE_DENSITY, Features, SparseFeatures
from graphdrop.sampling.rates import Rate

SPARSE_DEVICES = ("cpu", "cuda")
"""Devices on which features with few nonzeros are multiplied as a sparse matrix."""


class Inputs:
    """Graphs and sparse features, computed on first use."""

    def __init__(self) -> None:
        self._known = TensorCache()

    def features(
        self, x: Features, in_channels: int, dtype: torch.dtype, *, sparse: bool
    ) -> Features:
        """Checked features as the first layer reads them: sparse if few are nonzero.

        Args:
            x: ``[nodes, in_channels]``, dense or sparse.
            in_channels: the number of features that the layer reads.
            dtype: the type of its weights.
            sparse: whether it can read dense features with few nonzeros as a sparse matrix.
        """
        check_features(x, in_channels, dtype)
        if isinstance(x, SparseFeatures):
            return x
        dense = x.layout is torch.strided
        if x.requires_grad or (dense and not sparse):
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

    def edges(self, graph: Graph, x: Features, rate: Rate) -> Tensor:
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
        self, graph: Graph, x: Features, rows: Tensor, layers: int, *, itself: str
    ) -> tuple[list[Graph], Features]:
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
            if itself and not all(
                bool(torch.isin(cast("Tensor", part.dst_ids), cast("Tensor", part.src_ids)).all())
                for part in parts[:-1]
            ):
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


def check_features(x: Features, in_channels: int, dtype: torch.dtype) -> None:
    """Raise if a layer with so many inputs and this type of weights cannot read the features."""
    if not isinstance(x, Tensor | SparseFeatures):
        raise TypeError(
            f"x is of type {type(x).__name__}; it takes a tensor, dense or sparse, or "
            "SparseFeatures."
        )
    if len(x.shape) != 2 or x.shape[1] != in_channels:
        raise ValueError(f"x has shape {tuple(x.shape)}; it takes shape [nodes, {in_channels}].")
    if isinstance(x, SparseFeatures):
        return
    if x.dtype != dtype:
        raise TypeError(
            f"x has dtype {x.dtype}; it takes the model's dtype, {dtype}. Use x.to({dtype})."
        )
    if x.requires_grad and x.layout is not torch.strided:
        raise ValueError(
            "x is sparse and requires a gradient, which sparse features do not pass on: "
            "use x.detach() or x.to_dense()"
        )


def batch_graph(data: Any) -> BatchGraph | None:
    """The graph of a mini-batch; None for a whole graph, which has no `n_id`."""
    if getattr(data, "n_id", None) is None:
        return None
    return needed_batch_graph(data)


def needed_batch_graph(batch: Any) -> BatchGraph:
    """The graph of a mini-batch, or an error that says how to get one."""
    graph = getattr(batch, "graph", None)
    if not isinstance(graph, BatchGraph):
        raise ValueError(
            "batch has no graph; it takes one that knows the degrees and ids of the whole graph. "
            "Use graphdrop.loading.NeighborLoader, or for a batch of PyG's loader "
            "graphdrop.loading.with_graph(batch, WholeGraph.from_data(data))."
        )
    return graph


def check_batch(batch: BatchGraph, nodes: int, rows: Tensor | None) -> None:
    """Raise unless features and rows are those of a mini-batch."""
    if nodes != batch.num_nodes:
        raise ValueError(
            f"x has {nodes} rows; it takes those of the {batch.num_nodes} nodes of the batch."
        )
    if rows is not None:
        raise ValueError(
            "rows is given beside a mini-batch, whose outputs are those of its seed nodes. "
            "Leave rows out, and select from the output."
        )
