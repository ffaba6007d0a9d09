"""The planner of a graph convolution: in which order it is computed, and what passes share.

    H'[v] = sum_b ( sum_u A[v, u] z[v, u, b] H[u, b] ) W[b, :] + c

Neighbours are summed before or after the product with the weights, whichever costs less. Several
passes that differ in their masks alone are computed together in one loop over the edges. A product
of input and weights that does not depend on masks is computed once for all passes.
"""

# ruff: noqa: PLR0917 - the steps of a layer take what is drawn and what is shared one by one

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor, nn

from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, Sharing, block_of_feature, first_uniforms
from graphdrop.io.devices import to_device
from graphdrop.kernels import aggregate
from graphdrop.kernels.samples import aggregate_samples
from graphdrop.nn.features import SparseFeatures, drop_dense
from graphdrop.sampling.samplers import Draw, Sampler

if TYPE_CHECKING:
    from graphdrop.nn.conv import SampledGCNConv

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

Features = Tensor | SparseFeatures


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

    def of(self, x: Features, weight: Tensor) -> Tensor:
        """``X W``, computed once while ``x`` is the same object."""
        if self._known is None or self._known[0] is not x:
            self._known = x, _product(x, weight)
        return self._known[1]


def layer_passes(
    layer: SampledGCNConv, graph: Graph, draws: Sequence[Draw | None], number: int
) -> Iterator[LayerPass]:
    """The masks of several passes in a layer; their rates are sampled together."""
    beside = [_without_dropout(draw, layer.sampler) for draw in draws]
    dropouts = _masks(layer.dropout, graph, draws, number + DROPOUT_STREAM)
    samplers = _masks(layer.sampler, graph, draws, number)
    for draw, none, dropout, sampler in zip(draws, beside, dropouts, samplers, strict=True):
        yield LayerPass(draw, number, None if none else dropout, sampler)


def convolve(
    layer: SampledGCNConv,
    x: Features,
    graph: Graph,
    drawn: LayerPass,
    shared: SharedProduct | None = None,
) -> Tensor:
    """One pass through a layer, ``[num_src, in]`` to ``[num_dst, out]``."""
    mask, scale, sampler = drawn.sampler, None, layer.sampler
    if layer.dropout is not None and drawn.dropout is not None:
        x = _drop(x, layer.dropout, graph, drawn, drawn.dropout, beside=sampler is not None)
    if sampler is not None and mask is not None:
        if sampler.on_features:
            x, mask = _drop(x, sampler, graph, drawn, mask), None
        else:
            mask, scale = _with_row_factor(sampler, graph, drawn, mask)
            if drawn.draw is not None and mask is not None:
                features = layer.in_channels * (layer.out_channels if sampler.needs_weights else 1)
                read = graph.complete_rows if sampler.needs_earlier_layers else graph
                drawn.draw.record(mask, read, features, drawn.number)
    bias = None if layer.bias is None else layer.bias.sum(0)
    if scale is None:
        return _propagate(layer, x, graph, mask, bias, shared)
    out = _propagate(layer, x, graph, mask, None, shared) * scale
    return out if bias is None else out + bias


def convolve_several(
    layer: SampledGCNConv,
    inputs: Sequence[Features],
    graph: Graph,
    passes: Sequence[LayerPass],
    *,
    relu: bool,
    shared: SharedProduct | None,
) -> list[Tensor]:
    """The outputs of several passes, followed by a relu or not.

    Where nothing but the mask of a sum sets them apart, one walk over the edges makes them.
    """
    together = _side_by_side(layer, inputs, graph, passes, shared)
    if together is not None:
        return _sum_together(layer, inputs, graph, together, relu, shared)
    outs = [
        layer(x, graph, drawn=drawn, shared=shared) for x, drawn in zip(inputs, passes, strict=True)
    ]
    return [torch.relu(out) for out in outs] if relu else outs


def linear(x: Features, layer: nn.Linear) -> Tensor:
    """A linear layer on dense or sparse features."""
    if isinstance(x, SparseFeatures):
        return x.matmul(layer.weight.t().contiguous()) + layer.bias
    out: Tensor = layer(x)
    return out


def takes_sparse(layer: SampledGCNConv) -> bool:
    """Whether the input may be sparse: every block of features takes a product of its own."""
    sampler = layer.sampler
    if sampler is None or sampler.sharing is Sharing.SOURCE:
        return True
    return not sampler.needs_weights and (sampler.blocks or layer.in_channels) <= MAX_SPARSE_BLOCKS


# The masks of passes


def _without_dropout(draw: Draw | None, sampler: Sampler | None) -> bool:
    """Whether a pass keeps every feature of the layer's input."""
    return draw is not None and not draw.dropout and sampler is not None


def _masks(
    sampler: Sampler | None, graph: Graph, draws: Sequence[Draw | None], number: int
) -> Iterator[Mask | None]:
    """The mask of each pass; the rates of many passes are sampled together."""
    if sampler is None or all(draw is not None and draw.keeps_all for draw in draws):
        yield from (None for _ in draws)
        return
    together = [draw for draw in draws if draw is not None and not draw.keeps_all]
    if len(together) < 2 or len(together) < len(draws) or sampler.rate.entries:
        for draw in draws:
            keeps_all = draw is not None and draw.keeps_all
            yield None if keeps_all else sampler.mask(graph, draw, number)
        return
    first = sampler.mask(graph, together[0], number)
    keys = [draw.key(number) for draw in together]
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


def _drop(
    x: Features,
    sampler: Sampler,
    graph: Graph,
    drawn: LayerPass,
    mask: Mask,
    *,
    beside: bool = False,
) -> Features:
    """DropOut on the features themselves, the same as a mask shared by a node's edges."""
    described, scale = _with_row_factor(sampler, graph, drawn, mask)
    if described is None:
        return x
    if drawn.draw is not None:
        drawn.draw.record(mask, graph, x.shape[1], drawn.number, beside=beside)
    if isinstance(x, SparseFeatures):
        dropped = x.drop(mask, graph.src_ids)
        return dropped if scale is None else dropped.scaled(scale)
    out = drop_dense(x, mask, graph)
    return out if scale is None else out * scale


# Several passes side by side


def _side_by_side(
    layer: SampledGCNConv,
    inputs: Sequence[Features],
    graph: Graph,
    passes: Sequence[LayerPass],
    shared: SharedProduct | None,
) -> list[Mask] | None:
    """The masks, if the passes can be computed together with identical results; else None."""
    sampler, own = layer.sampler, [one.sampler for one in passes if one.sampler is not None]
    if (
        len(own) < max(2, len(passes))
        or sampler is None
        or not sampler.only_masks
        or any(one.dropout is not None for one in passes)
        or layer._forward_hooks
        or layer._forward_pre_hooks
        or any(one.draw is None or one.draw.tape is not None for one in passes)
        or torch.is_grad_enabled()
    ):
        return None
    blocks = own[0].draws_per_edge(layer.in_channels)
    if shared is not None and blocks == 1:
        return [replace(mask, blocks=1) for mask in own]
    sparse = isinstance(inputs[0], SparseFeatures)
    return None if sparse or _transforms_first(layer, graph, blocks) else own


def _sum_together(
    layer: SampledGCNConv,
    inputs: Sequence[Features],
    graph: Graph,
    masks: Sequence[Mask],
    relu: bool,
    shared: SharedProduct | None,
) -> list[Tensor]:
    bias = None if layer.bias is None else layer.bias.sum(0)
    if shared is not None and masks[0].draws_per_edge(layer.in_channels) == 1:
        outs = aggregate_samples(graph, [shared.of(x, layer.weight) for x in inputs], masks)
        outs = outs if bias is None else [out.add_(bias) for out in outs]
    else:
        sums = aggregate_samples(graph, cast("Sequence[Tensor]", inputs), masks)
        weight, bias = _padded(layer.weight, bias)
        outs = [_dense_product(x, weight, bias)[:, : layer.out_channels] for x in sums]
    return [torch.relu_(out) for out in outs] if relu else outs


# The order of work


def _propagate(
    layer: SampledGCNConv,
    x: Features,
    graph: Graph,
    mask: Mask | None,
    bias: Tensor | None,
    shared: SharedProduct | None,
) -> Tensor:
    parts = parts_of(layer, graph, mask, first=shared is not None)
    if isinstance(x, SparseFeatures) and not parts:
        parts = 1 if mask is None else mask.draws_per_edge(layer.in_channels)
    if parts == 1 and shared is not None:
        terms = shared.of(x, layer.weight)
    else:
        terms = terms_of(layer, x, parts, mask, graph.num_src)
    sums = aggregate(graph, terms, mask_of_terms(layer, mask, parts))
    if not parts:
        return _product(sums, layer.weight, bias)
    out = added(sums, parts)
    return out if bias is None else out.add_(bias)


def parts_of(layer: SampledGCNConv, graph: Graph | Sizes, mask: Mask | None, *, first: bool) -> int:
    """How many products with the weights stand side by side in the terms of the sum.

    0 if neighbours are summed before the product: the cheaper order is taken. In the ``first``
    layer, whose product all passes share, the product comes first if it can.
    """
    if _draws_pairs(layer, mask):
        return layer.in_channels
    blocks = 1 if mask is None else mask.draws_per_edge(layer.in_channels)
    transforms = (first and blocks == 1) or _transforms_first(layer, graph, blocks)
    return blocks if transforms else 0


def terms_of(
    layer: SampledGCNConv, x: Features, parts: int, mask: Mask | None, nodes: int
) -> Tensor:
    """The terms of the sum over neighbours, ``[rows, parts * out]``, or the input for no parts.

    ``x`` has some rows of an input of so many ``nodes``.
    """
    weight, (inputs, outputs) = layer.weight, layer.weight.shape
    if not parts:
        return x.to_dense() if isinstance(x, SparseFeatures) else x
    if _draws_pairs(layer, mask):
        if 4 * nodes * inputs * outputs > PAIR_BYTES:
            raise ValueError(
                f"pairs=True draws for {inputs} x {outputs} pairs of features at every edge: it is "
                "for small layers; use GraphDropConnect(blocks=None)"
            )
        dense = x.to_dense() if isinstance(x, SparseFeatures) else x
        return (dense[:, :, None] * weight).flatten(1)
    if isinstance(x, SparseFeatures) and parts > MAX_SPARSE_BLOCKS:
        raise ValueError(
            f"{parts} blocks over sparse input take a product each (at most "
            f"{MAX_SPARSE_BLOCKS}): use first_blocks=1 for the first layer, or dense features"
        )
    return products(x, weight, parts)


def mask_of_terms(layer: SampledGCNConv, mask: Mask | None, parts: int) -> Mask | None:
    """The mask of the sum of these terms: the products of a block keep its draw."""
    return mask if not parts or _draws_pairs(layer, mask) else _with_blocks(mask, parts)


def _draws_pairs(layer: SampledGCNConv, mask: Mask | None) -> bool:
    return mask is not None and layer.sampler is not None and layer.sampler.needs_weights


def _transforms_first(layer: SampledGCNConv, graph: Graph | Sizes, blocks: int) -> bool:
    if layer.order is not Order.AUTO:
        return layer.order is Order.TRANSFORM_FIRST
    product = MULTIPLY_COST * layer.in_channels * layer.out_channels
    least = blocks * LEAST_WIDTH if blocks > 1 else 0
    aggregated = graph.num_edges * max(layer.in_channels, least)
    transformed = graph.num_edges * max(blocks * layer.out_channels, least)
    return transformed + product * graph.num_src < aggregated + product * graph.num_dst


def sum_of_products(x: Features, weight: Tensor, graph: Graph, mask: Mask | None) -> Tensor:
    """The masked sum over neighbours times weights, computed from products ``X[b] W[b]``."""
    blocks = 1 if mask is None else mask.draws_per_edge(weight.shape[0])
    # a mask per feature of a single feature is one mask for all that is made of it; the products of
    # a block lie side by side: each keeps its block's draw
    sums = aggregate(graph, products(x, weight, blocks), _with_blocks(mask, blocks))
    return added(sums, blocks)


def products(x: Features, weight: Tensor, blocks: int) -> Tensor:
    """The products ``X[b] W[b]`` of all blocks side by side, ``[nodes, blocks * out]``."""
    if blocks == 1:
        return _product(x, weight)
    found, first = [], 0
    for size in torch.bincount(block_of_feature(len(weight), blocks)).tolist():
        last = first + size
        part = x.columns(first, last) if isinstance(x, SparseFeatures) else x[:, first:last]
        found.append(_product(part, weight[first:last]))
        first = last
    return torch.cat(found, 1)


def added(sums: Tensor, parts: int) -> Tensor:
    """The sum of the parts of each row, which lie side by side in its last dimension."""
    if parts == 1:
        return sums
    return sums.view(*sums.shape[:-1], parts, sums.shape[-1] // parts).sum(-2)


def _product(x: Features, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``X W + c``; the bias is for a dense ``X``."""
    if isinstance(x, SparseFeatures):
        return x.matmul(weight)
    padded, bias = _padded(weight, bias)
    return _dense_product(x, padded, bias)[:, : weight.shape[1]]


def _padded(weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The matrix padded to a multiple of ``COLUMNS`` columns."""
    columns = weight.shape[1]
    if columns < 2 * COLUMNS and (missing := -columns % COLUMNS):
        weight = nn.functional.pad(weight, (0, missing))
        bias = None if bias is None else nn.functional.pad(bias, (0, missing))
    return weight, bias


def _dense_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x @ weight if bias is None else torch.addmm(bias, x, weight)


def _with_blocks(mask: Mask | None, blocks: int) -> Mask | None:
    return None if mask is None else replace(mask, blocks=blocks)
