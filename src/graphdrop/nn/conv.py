"""``SampledGCNConv``: a graph convolution whose connections are drawn by a sampler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from graphdrop.draws import Kind, Mask, Sharing, block_of_feature, first_uniforms
from graphdrop.graph import Graph
from graphdrop.kernels import aggregate, aggregate_samples
from graphdrop.nn.features import SparseFeatures, drop_dense
from graphdrop.samplers import Draw, DropOut, GraphDropConnect, RandomWalk, Sampler

MULTIPLY_COST = 0.6
"""A multiplication in a dense product, in units of one float summed by ``aggregate``."""
COLUMNS = 16
"""Dense products are made with a multiple of so many columns: BLAS takes longer for 7 of them."""
LEAST_WIDTH = 64
"""Where an edge has several blocks, one of fewer features than this costs as much."""
PAIR_BYTES = 1 << 30
MAX_SPARSE_BLOCKS = 64
DROPOUT_STREAM = 1 << 20
"""Added to the layer's number: a layer's DropOut and its sampler draw from different streams."""


class Init(StrEnum):
    """How weights and biases start."""

    GLOROT = "glorot"
    """Weights uniform after Glorot, biases zero, as in PyG."""
    PAPER = "paper"
    """Weights normal with variance 1 / out, a bias for every block uniform in ±1 / sqrt(out).

    Adam moves a sum of biases as many times faster as there are: with a mask per feature the
    network would soon predict a constant, so there it has one bias.
    """


class Order(StrEnum):
    """Whether neighbours are summed before or after the dense product."""

    AUTO = "auto"
    """Whatever costs less."""
    AGGREGATE_FIRST = "aggregate-first"
    TRANSFORM_FIRST = "transform-first"


class LayerMasks(NamedTuple):
    """What one pass draws in a layer."""

    dropout: Mask | None
    sampler: Mask | None


class SampledGCNConv(nn.Module):
    r"""A graph convolution with random connections.

    .. math::
        H'[v] = \sum_{b} \Big( \sum_{u \in \mathcal N(v) \cup v}
            \hat A_{vu} \, z_{vub} \, H[u, b] \Big) W[b, :] + c

    where :math:`b` runs over the sampler's blocks of input features.

    Args:
        in_channels: features of a source.
        out_channels: features of a destination.
        sampler: draws the connections; ``None`` keeps all.
        dropout: a DropOut on the layer's input, beside the sampler.
        bias: add a bias, once, after the sum over blocks.
        init: how weights and biases start.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        sampler: Sampler | None = None,
        *,
        dropout: DropOut | None = None,
        bias: bool = True,
        init: Init | str = Init.GLOROT,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.sampler, self.dropout = sampler, dropout
        self.init = Init(init)
        self.order = Order.AUTO
        self._product: tuple[Tensor | SparseFeatures, Tensor] | None = None  # and of which input
        self._keeps_product = False
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels))
        blocks = 1
        if self.init is Init.PAPER and sampler is not None and sampler.sharing is Sharing.EDGE:
            blocks = sampler.blocks or 1
        self.bias = nn.Parameter(torch.empty(blocks, out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw fresh weights and biases; rates are reset by their sampler."""
        if self.init is Init.PAPER:
            nn.init.normal_(self.weight, std=self.out_channels**-0.5)
            if self.bias is not None:
                bound = self.out_channels**-0.5
                nn.init.uniform_(self.bias, -bound, bound)
            return
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    @contextmanager
    def keeping_product(self) -> Iterator[None]:
        """Within it, calls on the same input share the product with the weights.

        No mask touches that product where all input features share a draw and there is no
        DropOut; elsewhere this changes nothing.
        """
        self._keeps_product = True
        try:
            yield
        finally:
            self._keeps_product, self._product = False, None

    def forward(
        self,
        x: Tensor | SparseFeatures,
        graph: Graph,
        draw: Draw | None = None,
        layer: int = 0,
        masks: LayerMasks | None = None,
    ) -> Tensor:
        """Features ``[num_src, in]`` to ``[num_dst, out]``; without a draw, in expectation.

        ``masks`` are those of ``draw`` where they are there already.
        """
        if masks is None:
            (masks,) = self.masks(graph, [draw], layer)
        if self.dropout is not None and masks.dropout is not None:
            x = _drop(x, self.dropout, graph, draw, masks.dropout)
        mask, scale = masks.sampler, None
        if isinstance(self.sampler, DropOut) and mask is not None:
            x, mask = _drop(x, self.sampler, graph, draw, mask), None
        elif self.sampler is not None and mask is not None:
            if self.sampler.rescale:
                mask, scale = _rescaled(mask)
            if isinstance(self.sampler, RandomWalk):
                scale = self.sampler.reached(graph, draw, layer)
            if draw is not None and mask is not None:
                draw.record(mask, graph, self._drawn_features())
        bias = None if self.bias is None else self.bias.sum(0)
        if scale is None:
            return self._propagate(x, graph, mask, bias)
        out = self._propagate(x, graph, mask, None) * scale
        return out if bias is None else out + bias

    def masks(self, graph: Graph, draws: Sequence[Draw | None], layer: int) -> Iterator[LayerMasks]:
        """The masks of each of several passes."""
        dropouts = _masks(self.dropout, graph, draws, layer + DROPOUT_STREAM)
        return map(LayerMasks, dropouts, _masks(self.sampler, graph, draws, layer))

    def several(
        self,
        inputs: Sequence[Tensor | SparseFeatures],
        graph: Graph,
        draws: Sequence[Draw | None],
        layer: int,
        masks: Sequence[LayerMasks],
        *,
        relu: bool,
    ) -> list[Tensor]:
        """The outputs of several passes, followed by a relu or not.

        Where nothing but the mask of a sum sets them apart, one walk over the edges makes them.
        """
        together = self._together(inputs, graph, draws, masks)
        if together is not None:
            return self._sum_together(inputs, graph, together, relu)
        outs = [
            self(x, graph, draw, layer, own)
            for x, draw, own in zip(inputs, draws, masks, strict=True)
        ]
        return [torch.relu(out) for out in outs] if relu else outs

    def _together(
        self,
        inputs: Sequence[Tensor | SparseFeatures],
        graph: Graph,
        draws: Sequence[Draw | None],
        masks: Sequence[LayerMasks],
    ) -> list[Mask] | None:
        """The masks, if the passes can be made together and nobody would see a difference."""
        sampler, own = self.sampler, [mask.sampler for mask in masks if mask.sampler is not None]
        if (
            len(own) < max(2, len(masks))
            or sampler is None
            or sampler.rescale
            or isinstance(sampler, DropOut | RandomWalk)
            or self.dropout is not None
            or self._pairs
            or self._forward_hooks
            or self._forward_pre_hooks
            or any(draw is None or draw.tape is not None for draw in draws)
            or torch.is_grad_enabled()
        ):
            return None
        blocks = own[0].draws_per_edge(self.in_channels)
        if self._keeps_product and blocks == 1:
            return [replace(mask, blocks=1) for mask in own]
        sparse = isinstance(inputs[0], SparseFeatures)
        return None if sparse or self._transforms_first(graph, blocks) else own

    def _sum_together(
        self,
        inputs: Sequence[Tensor | SparseFeatures],
        graph: Graph,
        masks: Sequence[Mask],
        relu: bool,
    ) -> list[Tensor]:
        bias = None if self.bias is None else self.bias.sum(0)
        if self._keeps_product and masks[0].draws_per_edge(self.in_channels) == 1:
            products = [self._whole_product(x) for x in inputs]
            if relu:
                bias = self.weight.new_zeros(self.out_channels) if bias is None else bias
                return aggregate_samples(graph, products, masks, rectified_with=bias)
            sums = aggregate_samples(graph, products, masks)
            return sums if bias is None else [out.add_(bias) for out in sums]
        sums = aggregate_samples(graph, cast("Sequence[Tensor]", inputs), masks)
        weight, bias = _padded(self.weight, bias)
        outs = [_dense_product(x, weight, bias)[:, : self.out_channels] for x in sums]
        return [torch.relu_(out) for out in outs] if relu else outs

    @property
    def _pairs(self) -> bool:
        return isinstance(self.sampler, GraphDropConnect) and self.sampler.pairs

    @property
    def takes_sparse(self) -> bool:
        """Whether the input may be sparse: every block of features takes a product of its own."""
        if self.sampler is None or self.sampler.sharing is Sharing.SOURCE:
            return True
        return not self._pairs and (self.sampler.blocks or self.in_channels) <= MAX_SPARSE_BLOCKS

    def _drawn_features(self) -> int:
        return self.in_channels * (self.out_channels if self._pairs else 1)

    def _propagate(
        self, x: Tensor | SparseFeatures, graph: Graph, mask: Mask | None, bias: Tensor | None
    ) -> Tensor:
        blocks = 1 if mask is None else mask.draws_per_edge(self.in_channels)
        shares = self._keeps_product and blocks == 1
        if self._pairs and mask is not None:
            out = self._propagate_pairs(x, graph, mask)
        elif shares or isinstance(x, SparseFeatures) or self._transforms_first(graph, blocks):
            out = self._transform_first(x, graph, mask, blocks)
        else:
            return _product(aggregate(graph, x, mask), self.weight, bias)
        return out if bias is None else out.add_(bias)

    def _transforms_first(self, graph: Graph, blocks: int) -> bool:
        if self.order is not Order.AUTO:
            return self.order is Order.TRANSFORM_FIRST
        product = MULTIPLY_COST * self.in_channels * self.out_channels
        least = blocks * LEAST_WIDTH if blocks > 1 else 0
        aggregated = graph.num_edges * max(self.in_channels, least)
        transformed = graph.num_edges * max(blocks * self.out_channels, least)
        return transformed + product * graph.num_src < aggregated + product * graph.num_dst

    def _transform_first(
        self, x: Tensor | SparseFeatures, graph: Graph, mask: Mask | None, blocks: int
    ) -> Tensor:
        if blocks == 1:
            # a mask per feature of a single feature is one mask for all that is made of it
            return aggregate(graph, self._whole_product(x), _with_blocks(mask, 1))
        if isinstance(x, SparseFeatures) and blocks > MAX_SPARSE_BLOCKS:
            raise ValueError(
                f"{blocks} blocks over sparse input take a product each (at most "
                f"{MAX_SPARSE_BLOCKS}): use first_blocks=1 for the first layer, or dense features"
            )
        sizes = torch.bincount(block_of_feature(self.in_channels, blocks)).tolist()
        products, first = [], 0
        for size in sizes:
            part = (
                x.columns(first, first + size)
                if isinstance(x, SparseFeatures)
                else x[:, first : first + size]
            )
            products.append(_product(part, self.weight[first : first + size]))
            first += size
        # the products of a block lie side by side: each keeps its block's draw
        out = aggregate(graph, torch.cat(products, 1), _with_blocks(mask, blocks))
        return out.view(graph.num_dst, blocks, self.out_channels).sum(1)

    def _whole_product(self, x: Tensor | SparseFeatures) -> Tensor:
        drops = self.dropout is not None or isinstance(self.sampler, DropOut)
        if drops or not self._keeps_product:
            return _product(x, self.weight)
        if self._product is None or self._product[0] is not x:
            self._product = x, _product(x, self.weight)
        return self._product[1]

    def _propagate_pairs(self, x: Tensor | SparseFeatures, graph: Graph, mask: Mask) -> Tensor:
        width = self.in_channels * self.out_channels
        if isinstance(x, SparseFeatures) or 4 * graph.num_src * width > PAIR_BYTES:
            raise ValueError(
                f"pairs=True draws for {self.in_channels} x {self.out_channels} pairs of features "
                "at every edge: it is for small dense layers; use GraphDropConnect(blocks=None)"
            )
        products = (x[:, :, None] * self.weight).flatten(1)
        out = aggregate(graph, products, mask)
        return out.view(graph.num_dst, self.in_channels, self.out_channels).sum(1)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.in_channels}, {self.out_channels}"


def _product(x: Tensor | SparseFeatures, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``X W + c``; the bias is for a dense ``X``."""
    if isinstance(x, SparseFeatures):
        return x.matmul(weight)
    padded, bias = _padded(weight, bias)
    return _dense_product(x, padded, bias)[:, : weight.shape[1]]


def _padded(weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """A few columns made a multiple of ``COLUMNS``."""
    columns = weight.shape[1]
    if columns < 2 * COLUMNS and (missing := -columns % COLUMNS):
        weight = nn.functional.pad(weight, (0, missing))
        bias = None if bias is None else nn.functional.pad(bias, (0, missing))
    return weight, bias


def _dense_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x @ weight if bias is None else torch.addmm(bias, x, weight)


def _masks(
    sampler: Sampler | None, graph: Graph, draws: Sequence[Draw | None], layer: int
) -> Iterator[Mask | None]:
    """The mask of each pass; the rates of many passes are drawn together."""
    if sampler is None:
        yield from (None for _ in draws)
        return
    together = [draw for draw in draws if draw is not None]
    if len(together) < 2 or len(together) < len(draws) or sampler.rate.entries:
        yield from (sampler.mask(graph, draw, layer) for draw in draws)
        return
    first = sampler.mask(graph, together[0], layer)
    keys = [draw.key(layer) for draw in together]
    logits = first.keep_logit.expand(len(keys))
    if sampler.rate.num_uniforms:
        logits = sampler.rate.logit(first_uniforms(keys))
    yield from map(first.redrawn, keys, logits.unbind())


def _with_blocks(mask: Mask | None, blocks: int) -> Mask | None:
    return None if mask is None else replace(mask, blocks=blocks)


def _rescaled(mask: Mask) -> tuple[Mask | None, Tensor | None]:
    """Divide by the keep probability; the expectation is then the unmasked sum."""
    if mask.kind is Kind.MEAN:
        return None, None
    return mask, 1.0 / torch.sigmoid(mask.keep_logit)


def _drop(
    x: Tensor | SparseFeatures, sampler: DropOut, graph: Graph, draw: Draw | None, mask: Mask
) -> Tensor | SparseFeatures:
    """DropOut on the features themselves, the same as a mask shared by a node's edges."""
    scale = None
    if sampler.rescale:
        described, scale = _rescaled(mask)
        if described is None:
            return x
    if draw is not None:
        draw.record(mask, graph, x.shape[1])
    if isinstance(x, SparseFeatures):
        dropped = x.drop(mask, graph.src_ids)
        return dropped if scale is None else dropped.scaled(scale)
    out = drop_dense(x, mask, graph)
    return out if scale is None else out * scale
