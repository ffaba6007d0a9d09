"""``GCN``: a graph convolutional network with sampled connections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from graphdrop.graph import Graph, Normalization
from graphdrop.loading.batch import BatchGraph
from graphdrop.nn.conv import Init, LayerPass, SampledGCNConv, SharedProduct
from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.nn.description import build_part, describe_part
from graphdrop.nn.features import Features
from graphdrop.nn.inputs import Inputs, batch_graph, check_batch, needed_batch_graph
from graphdrop.nn.sampled import SampledModel
from graphdrop.nn.sampled_layer import KeepsStream, SampledLayer
from graphdrop.nn.skip_connections import Jump, Norm, Residual, SkipConnections, select_rows
from graphdrop.nn.state import restore_buffers
from graphdrop.sampling.estimators import Concrete, Estimator
from graphdrop.sampling.samplers import Draw, DropOut, Sampler

CACHED_BYTES = 1 << 30
"""Larger features are read from where they are stored, in every pass."""
DRAWN_TOGETHER = 32
"""How many passes have their rates sampled together."""


class GCN(KeepsStream, SampledModel):
    r"""Graph convolutional network with sampled connections: eq. (5) of the paper in every layer.

    Arguments have PyG's order. ``model(x, edge_index, edge_weight)`` takes ``x [n, in_channels]``
    and ``edge_index [2, E]``, directed or not, and returns ``[n, out_channels]``. In training every
    call samples new masks; after ``eval()`` the expected mask is used.

    Args:
        in_channels: number of features of a node.
        hidden_channels: width of the hidden layers.
        num_layers: number of graph convolutions, at least 1.
        out_channels: number of classes, or of targets.
        sampler: samples the connections; every layer gets its own copy. ``None`` keeps all.
        dropout: drop rate of an additional DropOut on the input of every layer.
        normalization: ``row``, ``sym`` or ``paper`` normalization of edges (``Normalization``).
        residual: residual connections. ``True`` adds the input of a hidden layer to its output;
            ``"initial"`` averages its output with that of the first layer, against
            over-smoothing; ``"linear"`` adds a linear map of its input before the activation.
        norm: normalization layer after every hidden layer: ``"batch"``, ``"layer"`` or ``None``.
        jk: jumping knowledge: a linear layer on the outputs of all layers, combined by ``"cat"``
            or ``"max"``, or on the ``"last"`` output; ``None`` for no such layer.
        init: initialization of weights and biases (``Init``).
        bias: whether layers have a bias.
        estimator: gradient estimator for learned rates; by default ``Concrete()``. With any other,
            train through ``model.loss(closure)``.
        seed: seed of the masks; by default that of ``torch.manual_seed``.

    Example:
        >>> from graphdrop import GraphDropConnect
        >>> model = GCN(16, 32, 2, 7, GraphDropConnect(blocks=2))
        >>> model(torch.randn(3, 16), torch.tensor([[0, 1], [1, 2]])).shape
        torch.Size([3, 7])
    """

    stream: Tensor

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        sampler: Sampler | None = None,
        *,
        dropout: float = 0.0,
        normalization: Normalization | str = Normalization.SYM,
        residual: Residual = False,
        norm: Norm | None = None,
        jk: Jump | None = None,
        init: Init | str = Init.GLOROT,
        bias: bool = True,
        estimator: Estimator | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        if num_layers < 1:
            raise ValueError(f"num_layers is {num_layers}; it takes a number of at least 1.")
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout is {dropout}; it takes a drop rate in [0, 1).")
        if not isinstance(sampler, Sampler | None):
            raise TypeError(
                f"sampler is of type {type(sampler).__name__}; it takes a Sampler such as "
                "DropEdge(0.2), or None."
            )
        if not isinstance(estimator, Estimator | None):
            raise TypeError(
                f"estimator is of type {type(estimator).__name__}; it takes an Estimator such as "
                "ARM()."
            )
        self.normalization = Normalization.of(normalization)
        self._dropout = dropout
        self._sampler = None if sampler is None else describe_part(sampler)
        last = out_channels if jk is None else hidden_channels
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), last]
        self.layers = nn.ModuleList(
            SampledGCNConv(
                widths[layer],
                widths[layer + 1],
                _sampler_of(sampler, layer),
                dropout=DropOut(dropout) if dropout else None,
                normalization=self.normalization,
                init=init,
                bias=bias,
                seed=0,
            )
            for layer in range(num_layers)
        )
        for layer in self.convs:
            layer.stream = layer.estimator = None  # the network has those of all its layers
        self.between = SkipConnections(widths, out_channels, residual, norm, jk)
        learned = sampler is not None and any(True for _ in sampler.rate.parameters())
        self.estimator = Concrete() if learned and estimator is None else estimator
        self.defaults = PredictionDefaults()
        self.start_stream(torch.initial_seed() if seed is None else seed)
        self.inputs = Inputs()
        self._asked: list[Draw | None] = []
        self._batches: list[BatchGraph] = []

    def reset_parameters(self) -> None:
        """Initialize weights and rates, and set the step counter to 0."""
        for layer in self.convs:
            layer.reset_parameters()
            if layer.sampler is not None:
                layer.sampler.rate.reset_parameters()
        self.between.reset_parameters()
        self.stream[1] = 0

    def description(self) -> dict[str, Any]:
        """The arguments of the constructor, as JSON values."""
        first = self.convs[0]
        return {
            "in_channels": first.in_channels,
            "hidden_channels": first.out_channels,
            "num_layers": len(self.layers),
            "out_channels": self.between.out_channels,
            "sampler": self._sampler,
            "dropout": self._dropout,
            "normalization": self.normalization.value,
            "residual": self.between.residual,
            "norm": self.between.norm,
            "jk": self.between.jk,
            "init": first.init.value,
            "bias": first.bias is not None,
            "estimator": None if self.estimator is None else describe_part(self.estimator),
        }

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        """A network from its `description`, with initial weights."""
        parts = {n: build_part(v) if isinstance(v, Mapping) else v for n, v in description.items()}
        return cls(**parts)

    # What makes it a SampledModel

    @property
    def module(self) -> nn.Module:
        """The network itself."""
        return self

    def sampled_layers(self) -> dict[str, SampledLayer]:
        """The layers, by their name."""
        return {f"layers.{number}": layer for number, layer in enumerate(self.convs)}

    @property
    def temperature(self) -> float | None:
        """The temperature of relaxed masks in training; ``None`` for hard masks."""
        return None if self.estimator is None else self.estimator.temperature

    def next_draw(self) -> Draw:
        """The draw of the next training step; the step counter is saved with the model."""
        seed, step = self.stream.tolist()
        self.stream[1] += 1
        return Draw(seed, step, temperature=self.temperature)

    @contextmanager
    def drawing(self, draw: Draw | None) -> Iterator[None]:
        """Context in which calls use this draw, or the expected masks for ``None``."""
        self._asked.append(draw)
        try:
            yield
        finally:
            self._asked.pop()

    @contextmanager
    def batch(self, batch: Any) -> Iterator[None]:
        """Context in which calls are given this mini-batch; they return outputs of its seeds."""
        self._batches.append(needed_batch_graph(batch))
        try:
            yield
        finally:
            self._batches.pop()

    def samples(
        self,
        data: Any,
        draws: Iterable[Draw | None],
        rows: Tensor | None = None,
        *,
        training: bool = False,
    ) -> Iterator[Tensor]:
        """The outputs of several draws, one by one; shared parts are computed once."""
        inputs = data.x, data.edge_index, getattr(data, "edge_weight", None)
        return self._passes(
            *inputs,
            rows=rows,
            draws=draws,
            shared=SharedProduct(),
            training=training,
            batch=batch_graph(data),
        )

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(
        self,
        x: Features,
        edge_index: Tensor | Graph,
        edge_weight: Tensor | None = None,
        *,
        rows: Tensor | None = None,
        draw: Draw | None = None,
    ) -> Tensor:
        """Outputs ``[nodes, out]``, or those of ``rows``, computed on their receptive field.

        ``torch.compile`` skips it: its sums are compiled kernels already.

        Args:
            x: features ``[nodes, in]``, dense or sparse.
            edge_index: ``[2, E]`` as in PyG, or a ``Graph``.
            edge_weight: ``[E]``, 1 by default.
            rows: the nodes whose outputs are wanted, by number or as a bool mask.
            draw: the random numbers to use; by default the next ones in training, and the
                expectation in evaluation.
        """
        if draw is None and self._asked:
            draw = self._asked[-1]
        elif draw is None and self.training:
            draw = self.next_draw()
        (output,) = self._passes(
            x,
            edge_index,
            edge_weight,
            rows=rows,
            draws=[draw],
            training=self.training,
            batch=self._batches[-1] if self._batches else None,
        )
        return output

    @contextmanager
    def _another_pass(self, *, first: bool) -> Iterator[None]:
        if first or self.between.norm != "batch":
            yield
            return
        with restore_buffers(self):
            yield

    # How passes are made

    @property
    def convs(self) -> list[SampledGCNConv]:
        """The graph convolutions."""
        return cast("list[SampledGCNConv]", list(self.layers))

    def _passes(
        self,
        x: Features,
        edge_index: Tensor | Graph,
        edge_weight: Tensor | None,
        *,
        rows: Tensor | None,
        draws: Iterable[Draw | None],
        shared: SharedProduct | None = None,
        training: bool,
        batch: BatchGraph | None = None,
    ) -> Iterator[Tensor]:
        """The outputs of several passes; ``shared`` computes the first product once."""
        draws = iter(draws)
        together = list(islice(draws, DRAWN_TOGETHER))
        keeps_all = all(draw is not None and draw.keeps_all for draw in together)
        features = self.convs[0].read(x, keeps_all=keeps_all)
        if batch is None:
            nodes = features.shape[0]
            graph = self.inputs.graph(edge_index, edge_weight, nodes, self.normalization)
            self.show_edges(self.inputs, graph, features)
            parts, features = self._parts(graph, features, rows)
        else:
            whole = batch.whole
            edges = whole.edge_index, whole.edge_weight, whole.num_nodes
            # the same object as that of predictions on the whole graph
            graph = whole.keep(self.inputs.graph(*edges, self.normalization))
            self.show_edges(self.inputs, graph, whole.x)
            parts, features = self._parts_of_batch(batch, features, rows)
        while together:
            drawn = [
                layer.passes(part, together, i)
                for i, (layer, part) in enumerate(zip(self.convs, parts, strict=True))
            ]
            for passes in zip(*drawn, strict=True):
                yield self._pass(features, parts, passes, shared, training=training)
            together = list(islice(draws, DRAWN_TOGETHER))

    def _pass(
        self,
        x: Features,
        parts: list[Graph],
        passes: tuple[LayerPass, ...],
        shared: SharedProduct | None,
        *,
        training: bool,
    ) -> Tensor:
        """The output of one pass, each layer on its part of the graph."""
        outputs, between = list[Tensor](), self.between
        for i, (layer, part) in enumerate(zip(self.convs, parts, strict=True)):
            out: Tensor = layer(x, part, drawn=passes[i], shared=None if i else shared)
            if i + 1 < len(parts) or between.head is not None:
                out = out.clone() if layer._forward_hooks else out  # a hook may keep it
                out = between.follow(
                    i,
                    out,
                    partial(select_rows, x, part.dst_ids, part.src_ids),
                    partial(select_rows, (outputs or [out])[0], part.dst_ids, parts[0].dst_ids),
                    training=training,
                )
            outputs.append(out)
            x = out
        if not between.joins:
            return between.join(outputs)
        last = parts[-1].dst_ids
        rows = [select_rows(out, last, p.dst_ids) for out, p in zip(outputs, parts, strict=True)]
        return between.join(cast("list[Tensor]", rows))

    def _parts(
        self, graph: Graph, x: Features, rows: Tensor | None
    ) -> tuple[list[Graph], Features]:
        """The part of the graph for each layer, and the rows of the input that the first reads."""
        if rows is None:
            return [graph] * len(self.layers), x
        walks = any(conv.sampler and conv.sampler.needs_earlier_layers for conv in self.convs)
        itself = self.between.reads_rows or ("a random walk" if walks else "")
        return self.inputs.receptive_field(graph, x, rows, len(self.layers), itself=itself)

    def _parts_of_batch(
        self, batch: BatchGraph, x: Features, rows: Tensor | None
    ) -> tuple[list[Graph], Features]:
        """The part of a mini-batch for each layer: its first nodes, ever fewer of them."""
        check_batch(batch, x.shape[0], rows)
        parts = batch.parts(self.normalization, len(self.layers))
        read = parts[0].num_src
        if read == x.shape[0]:
            return parts, x
        return parts, x[:read] if isinstance(x, Tensor) else x.select(torch.arange(read))


def _sampler_of(sampler: Sampler | None, layer: int) -> Sampler | None:
    if sampler is None:
        return None
    return sampler.for_first_layer() if layer == 0 else sampler.for_later_layer()


def fits_cache(x: Tensor) -> bool:
    """Whether features are small enough to be cached, and of a type that needs no conversion."""
    entries = x.numel() if x.layout is torch.strided else 4 * x._nnz()
    return x.dtype == torch.float32 and x.itemsize * entries <= CACHED_BYTES


def prepare_features(model: GCN, data: Any, settings: PredictionDefaults) -> Features | None:
    """The features of all nodes as a network reads them, or None if they do not fit its cache.

    Args:
        model: the network; its cache keeps them for later calls.
        data: a PyG `Data` with features as stored.
        settings: preprocessing of features.
    """
    x, first = data.x, model.convs[0]
    if not isinstance(x, Tensor) or x.dtype != first.weight.dtype or not fits_cache(x):
        return None
    return first.read(settings.inputs(data).x)
