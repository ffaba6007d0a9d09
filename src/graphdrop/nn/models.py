"""``GCN``: a graph convolutional network that takes any sampler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Final, Literal, cast

import torch
from torch import Tensor, nn

from graphdrop.draws import TEMPERATURE
from graphdrop.graph import Graph, Normalization
from graphdrop.nn.cache import TensorCache
from graphdrop.nn.conv import Init, SampledGCNConv
from graphdrop.nn.features import SPARSE_DENSITY, SparseFeatures
from graphdrop.rates import FixedRate
from graphdrop.samplers import Draw, DropOut, Sampler, describe_edges

INITIAL: Final = "initial"
TOGETHER_BYTES = 6 << 20
"""Samples whose outputs of a layer have so many bytes are made together: they stay in the cache."""


class GCN(nn.Module):
    r"""A graph convolutional network whose connections are sampled.

    It is called as a PyG model is, ``model(x, edge_index, edge_weight)``, directed graphs
    included. In training every call draws fresh masks; after ``eval()`` masks are replaced by
    their expectation, unless a ``Draw`` asks for a sample.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the hidden layers.
        num_layers: number of graph convolutions, at least 1.
        out_channels: number of classes, or of targets.
        sampler: draws the connections; every layer gets a copy. ``None`` keeps all.
        dropout: drop rate of an additional DropOut on the input of every layer.
        normalization: ``row``, ``sym`` or ``paper`` normalization (``Normalization``).
        residual: add the input of each hidden layer to its output; with ``"initial"`` each is
            the mean of its output and the first layer's, so that nodes stay apart in deep ones.
        init: how weights and biases start (``Init``).
        bias: whether layers have a bias.
        seed: of the masks; by default what ``torch.manual_seed`` was given.
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
        residual: bool | Literal["initial"] = False,
        init: Init | str = Init.GLOROT,
        bias: bool = True,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        if num_layers < 1:
            raise ValueError(f"num_layers must be at least 1; got {num_layers}")
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must be a drop rate in [0, 1); got {dropout}")
        if not isinstance(sampler, Sampler | None):
            raise TypeError(
                "sampler must be a Sampler such as DropEdge(FixedRate(keep=0.8)), or None; "
                f"got {type(sampler).__name__}"
            )
        self.normalization = Normalization.of(normalization)
        if residual not in (False, True, INITIAL):
            raise ValueError(f'residual must be False, True or "initial"; got {residual!r}')
        self.residual = residual
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.layers = nn.ModuleList(
            SampledGCNConv(
                widths[layer],
                widths[layer + 1],
                _sampler_of(sampler, layer),
                dropout=DropOut(FixedRate(keep=1.0 - dropout)) if dropout else None,
                init=init,
                bias=bias,
            )
            for layer in range(num_layers)
        )
        learned = sampler is not None and any(True for _ in sampler.rate.parameters())
        self.temperature: float | None = TEMPERATURE if learned else None
        """Training draws relaxed masks at this temperature; ``None`` draws hard ones."""
        seed = torch.initial_seed() if seed is None else seed
        self.register_buffer("stream", torch.tensor([seed & (2**63 - 1), 0]))
        self._prepared = TensorCache()

    def reset_parameters(self) -> None:
        """Draw fresh weights and rates, and start counting steps anew."""
        for layer in self.layers:
            layer.reset_parameters()  # type: ignore[operator]
            if layer.sampler is not None:
                layer.sampler.rate.reset_parameters()  # type: ignore[union-attr, operator]
        self.stream[1] = 0

    def kl(self) -> Tensor:
        """What the learned rates of all layers add to the objective; 0 where none is learned."""
        total = torch.zeros((), device=self.stream.device)
        for layer in self.layers:
            if isinstance(layer, SampledGCNConv) and layer.sampler is not None:
                total = total + layer.sampler.rate.kl()
        return total

    def next_draw(self) -> Draw:
        """The next training step's draw; the counter is saved with the model."""
        seed, step = self.stream.tolist()
        self.stream[1] += 1
        return Draw(seed, step, temperature=self.temperature)

    def sharing_first_product(self) -> AbstractContextManager[None]:
        """Within it, calls on the same input make its product with the first weights once."""
        first = self.layers[0]
        assert isinstance(first, SampledGCNConv)  # noqa: S101
        return first.keeping_product()

    def forward(
        self,
        x: Tensor | SparseFeatures,
        edge_index: Tensor | Graph,
        edge_weight: Tensor | None = None,
        *,
        rows: Tensor | None = None,
        draw: Draw | None = None,
    ) -> Tensor:
        """Outputs ``[nodes, out]``, or just those of ``rows``, computed from what they read.

        Args:
            x: features ``[nodes, in]``, dense or sparse.
            edge_index: ``[2, E]`` as in PyG, or a ``Graph``.
            edge_weight: ``[E]``, one where not given.
            rows: the nodes whose outputs are wanted, by number or as a bool mask.
            draw: the random numbers to use; by default the next ones in training, and the
                expectation in evaluation.
        """
        if draw is None and self.training:
            draw = self.next_draw()
        (output,) = self.samples(x, edge_index, edge_weight, rows=rows, draws=[draw])
        return output

    def samples(
        self,
        x: Tensor | SparseFeatures,
        edge_index: Tensor | Graph,
        edge_weight: Tensor | None = None,
        *,
        rows: Tensor | None = None,
        draws: Sequence[Draw | None],
    ) -> Iterator[Tensor]:
        """The outputs of several draws one by one, with what they have in common made once.

        The arguments are those of a call; ``None`` among the draws is the expectation.
        """
        features = self._features(x)
        graph = self._graph(edge_index, edge_weight, features.shape[0])
        parts, inputs = self._receptive_field(graph, features, rows)
        self._show_edges(graph, features)
        _check_rates(self.layers, graph)
        steps = list(zip(self.layers, parts, strict=True))
        drawn = [
            layer.masks(part, draws, number)  # type: ignore[operator]
            for number, (layer, part) in enumerate(steps)
        ]
        passes = zip(draws, *drawn, strict=True)
        while several := list(islice(passes, self._at_once(parts[0]))):
            these, *masks = zip(*several, strict=True)
            hidden: Sequence[Tensor | SparseFeatures] = [inputs] * len(several)
            for number, (layer, part) in enumerate(steps):
                inner = number + 1 < len(steps)
                outs: list[Tensor] = layer.several(  # type: ignore[operator]
                    hidden, part, these, number, masks[number], relu=inner
                )
                if number == 0:
                    initial = outs
                if inner:
                    outs = self._with_residual(outs, hidden, initial, part, parts[0])
                hidden = outs
            while outs:  # and keep none of them
                yield outs.pop(0)

    def _with_residual(
        self,
        outs: list[Tensor],
        inputs: Sequence[Tensor | SparseFeatures],
        initial: list[Tensor],
        part: Graph,
        first: Graph,
    ) -> list[Tensor]:
        """A hidden layer's outputs with what it keeps of its inputs, or of the first layer's."""
        if self.residual == INITIAL:
            if outs is initial:
                return outs
            own = _positions(part.dst_ids, first.dst_ids, outs[0])
            return [torch.lerp(out, x[own], 0.5) for out, x in zip(outs, initial, strict=True)]
        if not self.residual or not _same_width(inputs[0], outs[0]):
            return outs
        own = _positions(part.dst_ids, part.src_ids, outs[0])
        return [out + x[own] for out, x in zip(outs, inputs, strict=True)]  # type: ignore[index]

    def _at_once(self, part: Graph) -> int:
        """How many passes go side by side; one, where the order of work decides the gradients."""
        if torch.is_grad_enabled():
            return 1
        width = cast("SampledGCNConv", self.layers[0]).out_channels
        return max(1, TOGETHER_BYTES // max(1, 4 * part.num_dst * width))

    def _features(self, x: Tensor | SparseFeatures) -> Tensor | SparseFeatures:
        first = self.layers[0]
        assert isinstance(first, SampledGCNConv)  # noqa: S101 - what the constructor put there
        _check_features(x, first)
        if isinstance(x, SparseFeatures):
            return x
        dense = x.layout is torch.strided
        if x.requires_grad or (dense and not first.takes_sparse):
            return x
        if x.dtype != torch.float32 or x.device.type != "cpu":
            return x.to_dense()

        def prepare() -> SparseFeatures | None:
            if dense and int(torch.count_nonzero(x)) > SPARSE_DENSITY * x.numel():
                return None  # and not x, which the cache would then keep alive
            return SparseFeatures.from_tensor(x)

        prepared: SparseFeatures | None = self._prepared.get(prepare, x, extra="features")
        return x if prepared is None else prepared

    def _graph(self, edge_index: Tensor | Graph, weight: Tensor | None, nodes: int) -> Graph:
        if isinstance(edge_index, Graph):
            if weight is not None:
                raise ValueError(
                    "edge_weight is given beside a Graph, which has its own weights: build it "
                    "with Graph.from_edge_index(edge_index, edge_weight=...)"
                )
            if edge_index.normalization is self.normalization:
                return edge_index

        def build() -> Graph:
            if isinstance(edge_index, Graph):
                return edge_index.normalized(self.normalization)
            return Graph.from_edge_index(
                edge_index, nodes, weight, normalization=self.normalization
            )

        graph: Graph = self._prepared.get(
            build, edge_index, weight, extra=("graph", nodes, self.normalization)
        )
        return graph

    def _show_edges(self, graph: Graph, x: Tensor | SparseFeatures) -> None:
        """Describe the edges to the samplers whose rates are computed from them."""
        samplers = [layer.sampler for layer in self.layers if isinstance(layer.sampler, Sampler)]
        if not any(sampler.reads_edges for sampler in samplers):
            return
        edges = self._prepared.get(
            lambda: describe_edges(graph, x.matrix if isinstance(x, SparseFeatures) else x),
            graph,
            x,
            extra="edges",
        )
        for sampler in samplers:
            sampler.observe(edges)

    def _receptive_field(
        self, graph: Graph, x: Tensor | SparseFeatures, rows: Tensor | None
    ) -> tuple[list[Graph], Tensor | SparseFeatures]:
        """The part of the graph for each layer, and the rows of the input that the first reads."""
        count = len(self.layers)
        if rows is None:
            return [graph] * count, x

        def restrict() -> tuple[list[Graph], Tensor, SparseFeatures | None]:
            parts = graph.receptive_field(rows, count)
            if self.residual and not all(_reads_itself(part) for part in parts[:-1]):
                raise ValueError(
                    "a residual reads every row itself, which rows= finds only in a graph with "
                    "self-loops: build it with self_loops=True and normalize it, or leave rows out"
                )
            nodes = parts[0].src_ids
            assert nodes is not None  # noqa: S101 - a part has ids
            selected = x.select(nodes.long()) if isinstance(x, SparseFeatures) else None
            return parts, nodes, selected

        sparse = x if isinstance(x, SparseFeatures) else None
        parts, nodes, selected = self._prepared.get(
            restrict, rows, graph, sparse, extra=("rows", self.residual)
        )
        return parts, x[nodes] if isinstance(x, Tensor) else selected


def _sampler_of(sampler: Sampler | None, layer: int) -> Sampler | None:
    if sampler is None:
        return None
    return sampler.for_first_layer() if layer == 0 else sampler.for_later_layer()


def _check_rates(layers: nn.ModuleList, graph: Graph) -> None:
    for layer in layers:
        entries = 0 if layer.sampler is None else layer.sampler.rate.entries.numel()  # type: ignore
        if entries > 1 and entries != graph.num_edges:
            raise ValueError(
                f"the network has a rate for each of {entries} edges, self-loops included, and "
                f"this graph has {graph.num_edges}: use the graph it was made for, or rates that "
                "all edges of a layer share"
            )


def _same_width(hidden: Tensor | SparseFeatures, out: Tensor) -> bool:
    return isinstance(hidden, Tensor) and hidden.shape[1] == out.shape[1]


def _reads_itself(part: Graph) -> bool:
    """Whether every destination is among the sources."""
    assert part.dst_ids is not None  # noqa: S101 - a part has ids
    assert part.src_ids is not None  # noqa: S101
    return bool(torch.isin(part.dst_ids, part.src_ids).all())


def _positions(ids: Tensor | None, among: Tensor | None, rows: Tensor) -> Tensor:
    """Where each node stands among some that are sorted; where ids are numbers, in its place."""
    if ids is None or among is None:
        return torch.arange(len(rows), device=rows.device)
    return torch.searchsorted(among, ids)


def _check_features(x: Tensor | SparseFeatures, first: SampledGCNConv) -> None:
    if not isinstance(x, Tensor | SparseFeatures):
        raise TypeError(
            f"x must be a tensor, dense or sparse, or SparseFeatures; got {type(x).__name__}"
        )
    if len(x.shape) != 2 or x.shape[1] != first.in_channels:
        raise ValueError(f"x must have shape [nodes, {first.in_channels}]; got {tuple(x.shape)}")
    if isinstance(x, SparseFeatures):
        return
    if x.dtype != first.weight.dtype:
        raise TypeError(
            f"x must have the model's dtype, {first.weight.dtype}; got {x.dtype}: "
            f"use x.to({first.weight.dtype})"
        )
    if x.requires_grad and x.layout is not torch.strided:
        raise ValueError(
            "x is sparse and requires a gradient, which sparse features do not pass on: "
            "use x.detach() or x.to_dense()"
        )
