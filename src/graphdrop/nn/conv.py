"""``SampledGCNConv``: a graph convolution with sampled connections.

    H'[v] = sum_b ( sum_u A[v, u] z[v, u, b] H[u, b] ) W[b, :] + c

Training, predictions, layer-wise passes and the memory estimate take the same steps: ``drop`` masks
features of nodes, ``terms`` makes what is summed over neighbours, ``aggregate`` sums it, and
``finish`` makes the output of the sums. Neighbours are summed before or after the product with the
weights, whichever costs less: ``count_parts`` decides it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from graphdrop.graph import Graph, Normalization
from graphdrop.graph.masks import Kind, Mask, Sharing, block_of_feature, first_uniforms
from graphdrop.io.devices import to_device
from graphdrop.kernels import aggregate
from graphdrop.nn.features import Features, SparseFeatures, drop_dense
from graphdrop.nn.inputs import check_batch
from graphdrop.nn.sampled_layer import SampledLayer
from graphdrop.sampling.estimators import Concrete, Estimator
from graphdrop.sampling.samplers import Draw, DropOut, Sampler

MULTIPLY_COST = 0.6
"""A multiplication in a dense product, in units of one float summed by ``aggregate``."""
COLUMNS = 16
"""Dense products are made with a multiple of so many columns: BLAS takes longer for 7 of them."""
LEAST_WIDTH = 64
"""Blocks with fewer features than this cost as much as blocks of this width."""
PAIR_BYTES = 1 << 30
MAX_SPARSE_BLOCKS = 64
DROPOUT_STREAM = 1 << 20
"""Offset of the layer number of DropOut, so that it does not share draws with the sampler."""


class Init(StrEnum):
    """Initialization of weights and biases."""

    GLOROT = "glorot"
    """Weights uniform after Glorot, biases zero, as in PyG."""
    PAPER = "paper"
    """Weights normal with variance 1 / out, a bias for every block uniform in ±1 / sqrt(out).

    Adam moves a sum of k biases k times as fast as one. With a mask per feature the network would
    soon predict a constant, so that it has only one bias then.
    """


class Order(StrEnum):
    """Whether neighbors are summed before or after the dense product."""

    AUTO = "auto"
    """The cheaper order."""
    AGGREGATE_FIRST = "aggregate-first"
    TRANSFORM_FIRST = "transform-first"


class LayerPass(NamedTuple):
    """The masks of one pass in one layer."""

    draw: Draw | None
    """The draw; ``None`` for the expected mask."""
    number: int
    """The number of the layer."""
    dropout: Mask | None
    """The mask of the additional DropOut; ``None`` keeps every feature."""
    sampler: Mask | None
    """The mask of the sampler; ``None`` keeps every connection."""


class Sizes(NamedTuple):
    """The sizes of a part of a graph, to plan a layer before the part is there."""

    num_src: int
    num_dst: int
    num_edges: int


class SharedProduct:
    """The product of an input with a layer's weights, for all passes that read the same input."""

    def __init__(self) -> None:
        self._known: tuple[Features, Tensor] | None = None

    def get(self, x: Features, weight: Tensor) -> Tensor:
        """``X W``, computed once while ``x`` is the same object."""
        if self._known is None or self._known[0] is not x:
            self._known = x, multiply(x, weight)
        return self._known[1]


class SampledGCNConv(SampledLayer):
    r"""Graph convolution with sampled connections, eq. (6) of the paper with blocks of features.

    .. math::
        H'[v] = \sum_{b} \Big( \sum_{u \in \mathcal N(v) \cup v}
            \hat A_{vu} \, z_{vub} \, H[u, b] \Big) W[b, :] + c

    where :math:`b` runs over the sampler's blocks of input features. It is called like PyG's
    ``GCNConv``: ``conv(x, edge_index, edge_weight)`` with ``x [n, in_channels]`` returns
    ``[n, out_channels]``. ``graphdrop.predict``, ``Trainer``, ``save`` and ``load`` take any
    ``nn.Module`` that contains such layers. In training every call samples new masks; after
    ``eval()`` the expected mask is used.

    Args:
        in_channels: number of input features.
        out_channels: number of output features.
        sampler: samples the connections; ``None`` keeps all.
        dropout: an additional DropOut on the input of the layer.
        normalization: ``sym``, ``row`` or ``paper`` (``Normalization``); self-loops are added.
        bias: add a bias, once, after the sum over blocks.
        init: initialization of weights and biases (``Init``).
        estimator: gradient estimator for the learned rates, read from the first sampled layer of a
            model; by default ``Concrete()``.
        seed: seed of the masks; by default drawn by torch's generator.

    Example:
        >>> from graphdrop import GraphDropConnect
        >>> conv = SampledGCNConv(16, 32, GraphDropConnect(blocks=2))
        >>> conv(torch.randn(3, 16), torch.tensor([[0, 1], [1, 2]])).shape
        torch.Size([3, 32])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        sampler: Sampler | None = None,
        *,
        dropout: DropOut | None = None,
        normalization: Normalization | str = Normalization.SYM,
        bias: bool = True,
        init: Init | str = Init.GLOROT,
        estimator: Estimator | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.sampler, self.dropout = sampler, dropout
        self.normalization = Normalization.of(normalization)
        self.init = Init(init)
        self.order = Order.AUTO
        learned = sampler is not None and any(True for _ in sampler.rate.parameters())
        self.estimator = Concrete() if learned and estimator is None else estimator
        self.temperature = None if self.estimator is None else self.estimator.temperature
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels))
        blocks = 1
        if self.init is Init.PAPER and sampler is not None and sampler.sharing is Sharing.EDGE:
            blocks = sampler.blocks or 1
        self.bias = nn.Parameter(torch.empty(blocks, out_channels)) if bias else None
        self.reset_parameters()
        self.start_stream(int(torch.randint(2**63 - 1, ())) if seed is None else seed)

    def reset_parameters(self) -> None:
        """Initialize weights and biases; rates are reset by their sampler."""
        if self.init is Init.PAPER:
            nn.init.normal_(self.weight, std=self.out_channels**-0.5)
            if self.bias is not None:
                bound = self.out_channels**-0.5
                nn.init.uniform_(self.bias, -bound, bound)
            return
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(
        self,
        x: Features,
        edge_index: Tensor | Graph,
        edge_weight: Tensor | None = None,
        *,
        drawn: LayerPass | None = None,
        shared: SharedProduct | None = None,
    ) -> Tensor:
        """Features ``[nodes, in_channels]`` to ``[nodes, out_channels]``.

        ``torch.compile`` skips it: its sums are compiled kernels already.

        Args:
            x: features, dense or sparse.
            edge_index: ``[2, E]`` as in PyG, or a ``Graph``.
            edge_weight: ``[E]``, 1 by default.
            drawn: the masks of this layer, if the model has prepared them for all layers.
            shared: the product with the weights, if several passes share it.
        """
        if drawn is None:
            x = self.read(x)
            if self.in_batch is None:
                graph = self.inputs.graph(edge_index, edge_weight, x.shape[0], self.normalization)
            else:
                check_batch(self.in_batch, x.shape[0], None)
                graph = self.in_batch.square(self.normalization)
            draw, number = self.next_draw(training=self.training)
            (drawn,) = self.passes(graph, [draw], number)
        else:
            graph = cast("Graph", edge_index)
        x = self.drop(x, graph, drawn)
        mask, factor = self.mask_of_sum(graph, drawn)
        if mask is not None and drawn.draw is not None:
            pairs = self.out_channels if self._draws_pairs(mask) else 1
            earlier = self.sampler is not None and self.sampler.needs_earlier_layers
            read = graph.complete_rows if earlier else graph
            drawn.draw.record(mask, read, self.in_channels * pairs, drawn.number)
        parts = self.count_parts(graph, mask, first=shared is not None)
        if isinstance(x, SparseFeatures) and not parts:
            parts = 1 if mask is None else mask.draws_per_edge(self.in_channels)
        if parts == 1 and shared is not None:
            terms = shared.get(x, self.weight)
        else:
            terms = self.terms(x, parts, mask, graph.num_src)
        sums = aggregate(graph, terms, self.mask_of_terms(mask, parts))
        return self.finish(sums, parts, factor)

    # The steps

    def read(self, x: Features, *, keeps_all: bool = False) -> Features:
        """Checked features, sparse if few are nonzero and masks of features allow it."""
        sparse = keeps_all or self.takes_sparse
        return self.inputs.features(x, self.in_channels, self.weight.dtype, sparse=sparse)

    @property
    def takes_sparse(self) -> bool:
        """Whether the input may be sparse: every block of features takes a product of its own."""
        sampler = self.sampler
        if sampler is None or sampler.sharing is Sharing.SOURCE:
            return True
        blocks = sampler.blocks or self.in_channels
        return not sampler.needs_weights and blocks <= MAX_SPARSE_BLOCKS

    def passes(
        self, graph: Graph, draws: Sequence[Draw | None], number: int
    ) -> Iterator[LayerPass]:
        """The masks of several passes; their rates are sampled together."""
        dropouts = _draw_masks(self.dropout, graph, draws, number + DROPOUT_STREAM)
        samplers = _draw_masks(self.sampler, graph, draws, number)
        for draw, dropout, sampler in zip(draws, dropouts, samplers, strict=True):
            off = draw is not None and not draw.dropout and self.sampler is not None
            yield LayerPass(draw, number, None if off else dropout, sampler)

    def drops(self, drawn: LayerPass) -> bool:
        """Whether a pass masks features of nodes, before the sum."""
        on_features = self.sampler is not None and self.sampler.on_features
        return drawn.dropout is not None or (on_features and drawn.sampler is not None)

    def drop(self, x: Features, graph: Graph, drawn: LayerPass) -> Features:
        """The features of the sources of a graph, after the masks on features."""
        sampler = self.sampler
        if self.dropout is not None and drawn.dropout is not None:
            beside = sampler is not None
            x = drop_features(x, self.dropout, graph, drawn, drawn.dropout, beside=beside)
        if sampler is not None and sampler.on_features and drawn.sampler is not None:
            x = drop_features(x, sampler, graph, drawn, drawn.sampler)
        return x

    def mask_of_sum(self, graph: Graph, drawn: LayerPass) -> tuple[Mask | None, Tensor | None]:
        """The mask of the sum over neighbours, and the factor of its rows."""
        if self.sampler is None or self.sampler.on_features or drawn.sampler is None:
            return None, None
        return _with_row_factor(self.sampler, graph, drawn, drawn.sampler)

    def count_parts(self, graph: Graph | Sizes, mask: Mask | None, *, first: bool) -> int:
        """How many products with the weights stand side by side in the terms of the sum.

        0 if neighbours are summed before the product: the cheaper order is taken. In the ``first``
        layer, whose product all passes share, the product comes first if it can.
        """
        if self._draws_pairs(mask):
            return self.in_channels
        blocks = 1 if mask is None else mask.draws_per_edge(self.in_channels)
        if self.order is not Order.AUTO:
            before = self.order is Order.TRANSFORM_FIRST
        else:
            product = MULTIPLY_COST * self.in_channels * self.out_channels
            least = blocks * LEAST_WIDTH if blocks > 1 else 0
            aggregated = graph.num_edges * max(self.in_channels, least)
            transformed = graph.num_edges * max(blocks * self.out_channels, least)
            before = transformed + product * graph.num_src < aggregated + product * graph.num_dst
        return blocks if before or (first and blocks == 1) else 0

    def terms(self, x: Features, parts: int, mask: Mask | None, nodes: int) -> Tensor:
        """The terms of the sum over neighbours, ``[rows, parts * out]``, or the input for no parts.

        ``x`` has some rows of an input of so many ``nodes``.
        """
        pairs = self._draws_pairs(mask)
        if pairs and 4 * nodes * self.weight.numel() > PAIR_BYTES:
            raise ValueError(
                f"pairs=True draws for {self.in_channels} x {self.out_channels} pairs of features "
                "at every edge: it is for small layers; use GraphDropConnect(blocks=None)"
            )
        if pairs or not parts:
            x = x.to_dense() if isinstance(x, SparseFeatures) else x
            return (x[:, :, None] * self.weight).flatten(1) if pairs else x
        if isinstance(x, SparseFeatures) and parts > MAX_SPARSE_BLOCKS:
            raise ValueError(
                f"{parts} blocks over sparse input take a product each (at most "
                f"{MAX_SPARSE_BLOCKS}): use first_blocks=1 for the first layer, or dense features"
            )
        return multiply_blocks(x, self.weight, parts)

    def mask_of_terms(self, mask: Mask | None, parts: int) -> Mask | None:
        """The mask of the sum of these terms: the products of a block keep its draw."""
        if mask is None or not parts or self._draws_pairs(mask):
            return mask
        return replace(mask, blocks=parts)

    def finish(self, sums: Tensor, parts: int, factor: Tensor | None = None) -> Tensor:
        """The output ``[..., out]`` of the sums over neighbours, which it may overwrite."""
        bias = None if self.bias is None else self.bias.sum(0)
        if not parts and factor is None:
            return multiply(sums, self.weight, bias)
        out = add_parts(sums, parts) if parts else multiply(sums, self.weight)
        out = out if factor is None else out * factor
        return out if bias is None else out.add_(bias)

    def _draws_pairs(self, mask: Mask | None) -> bool:
        return mask is not None and self.sampler is not None and self.sampler.needs_weights

    def weights_and_biases(self) -> tuple[list[Tensor], list[Tensor]]:
        """The matrix, and the biases of all blocks."""
        return [self.weight], [] if self.bias is None else [self.bias]

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.in_channels}, {self.out_channels}"


def _draw_masks(
    sampler: Sampler | None, graph: Graph, draws: Sequence[Draw | None], number: int
) -> Iterator[Mask | None]:
    """The mask of each pass; the rates of many passes are sampled together."""
    drawn = [draw for draw in draws if draw is not None and not draw.keeps_all]
    if sampler is None:
        yield from (None for _ in draws)
    elif len(drawn) < max(2, len(draws)) or sampler.rate.entries:
        for draw in draws:
            keeps_all = draw is not None and draw.keeps_all
            yield None if keeps_all else sampler.mask(graph, draw, number)
    else:
        first = sampler.mask(graph, drawn[0], number)
        keys = [draw.key(number) for draw in drawn]
        logits = first.keep_logit.expand(len(keys))
        if sampler.rate.num_uniforms:
            logits = sampler.rate.logit(to_device(first_uniforms(keys), sampler.rate.device))
        yield from map(first.redrawn, keys, logits.unbind())


def _with_row_factor(
    sampler: Sampler, graph: Graph, drawn: LayerPass, mask: Mask
) -> tuple[Mask | None, Tensor | None]:
    """The mask of a sum, and the factor of its rows.

    Division by the keep probability makes the unmasked sum its expectation.
    """
    if sampler.rescale and mask.kind is Kind.MEAN:
        return None, None
    return mask, sampler.row_factor(graph, drawn.draw, drawn.number, mask)


def drop_features(
    x: Features,
    sampler: Sampler,
    graph: Graph,
    drawn: LayerPass,
    mask: Mask,
    *,
    beside: bool = False,
) -> Features:
    """DropOut on the features themselves, the same as a mask shared by a node's edges."""
    acting, factor = _with_row_factor(sampler, graph, drawn, mask)
    if acting is None:
        return x
    if drawn.draw is not None:
        drawn.draw.record(mask, graph, x.shape[1], drawn.number, beside=beside)
    if isinstance(x, SparseFeatures):
        dropped = x.drop(mask, graph.src_ids)
        return dropped if factor is None else dropped.scaled(factor)
    out = drop_dense(x, mask, graph)
    return out if factor is None else out * factor


def multiply(x: Features, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``X W + c``; the bias is for a dense ``X``."""
    if isinstance(x, SparseFeatures):
        return x.matmul(weight)
    columns = weight.shape[1]
    if columns < 2 * COLUMNS and (missing := -columns % COLUMNS):
        weight = nn.functional.pad(weight, (0, missing))
        bias = None if bias is None else nn.functional.pad(bias, (0, missing))
    rows = x.flatten(0, -2)
    out = rows @ weight if bias is None else torch.addmm(bias, rows, weight)
    return out[:, :columns].view(*x.shape[:-1], columns)


def multiply_blocks(x: Features, weight: Tensor, blocks: int) -> Tensor:
    """The products ``X[b] W[b]`` of all blocks side by side, ``[nodes, blocks * out]``."""
    if blocks == 1:
        return multiply(x, weight)
    products, first = [], 0
    for size in torch.bincount(block_of_feature(len(weight), blocks)).tolist():
        last = first + size
        part = x.columns(first, last) if isinstance(x, SparseFeatures) else x[:, first:last]
        products.append(multiply(part, weight[first:last]))
        first = last
    return torch.cat(products, 1)


def add_parts(sums: Tensor, parts: int) -> Tensor:
    """The sum of the parts of each row, which lie side by side in its last dimension."""
    if parts == 1:
        return sums
    return sums.view(*sums.shape[:-1], parts, sums.shape[-1] // parts).sum(-2)
