"""One graph convolution over all nodes, a range of rows at a time, for several samples.

It is computed in two steps. The first works on nodes: DropOut of features and, if that is cheaper,
the product with the weights. The second sums over neighbours, window by window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from graphdrop.graph import Graph
from graphdrop.graph.masks import Mask
from graphdrop.kernels.samples import aggregate_stacked
from graphdrop.nn import plan
from graphdrop.nn.conv import SampledGCNConv
from graphdrop.nn.features import SparseFeatures
from graphdrop.nn.layerwise.features import Rows
from graphdrop.nn.layerwise.states import States
from graphdrop.nn.plan import LayerPass

State = Rows | Tensor
"""The input of a layer: the features that all samples share, or ``[nodes, samples, width]``."""


class Prepared(NamedTuple):
    """What a layer sums over neighbours."""

    terms: Tensor
    """``[nodes, samples or 1, terms]``."""
    parts: int
    """0 if the product with the weights is still to be made, otherwise the number of parts of a
    row that are added to give the output: the blocks of features, or the features for pairs."""


def masks_of_sum(layer: SampledGCNConv, passes: Sequence[LayerPass]) -> list[Mask]:
    """The masks of the sum over neighbours; none if nothing there is masked."""
    if layer.sampler is None or layer.sampler.on_features:
        return []
    return [one.sampler for one in passes if one.sampler is not None]


def parts_of(
    layer: SampledGCNConv, graph: Graph, passes: Sequence[LayerPass], *, first: bool
) -> int:
    """``plan.parts_of`` for several passes."""
    return plan.parts_of(layer, graph, _mask_of_sum(layer, passes), first=first)


def _mask_of_sum(layer: SampledGCNConv, passes: Sequence[LayerPass]) -> Mask | None:
    return next(iter(masks_of_sum(layer, passes)), None)


def drops_features(layer: SampledGCNConv, passes: Sequence[LayerPass]) -> bool:
    """Whether the samples mask features of nodes, and so share nothing before the sum."""
    on_features = layer.sampler is not None and layer.sampler.on_features
    return any(
        one.dropout is not None or (on_features and one.sampler is not None) for one in passes
    )


def terms_width(
    layer: SampledGCNConv, graph: Graph, passes: Sequence[LayerPass], *, first: bool
) -> int:
    """How many numbers of a node `prepare` stores; 0 if it hands on the layer's input."""
    if parts := parts_of(layer, graph, passes, first=first):
        return parts * layer.out_channels
    return layer.in_channels if drops_features(layer, passes) else 0


def prepare(
    layer: SampledGCNConv,
    graph: Graph,
    x: State,
    passes: Sequence[LayerPass],
    states: States,
    *,
    nodes: Tensor | None = None,
) -> Prepared:
    """The terms of the sum over neighbours, for all nodes or for those that are named."""
    parts = parts_of(layer, graph, passes, first=isinstance(x, Rows))
    drops = drops_features(layer, passes)
    if not drops and not parts:
        if isinstance(x, Tensor):
            return Prepared(x, 0)
        if x.stored is not None:
            return Prepared(x.stored[:, None], 0)
    mask = _mask_of_sum(layer, passes)
    width = parts * layer.out_channels if parts else layer.in_channels
    count = len(passes) if drops or isinstance(x, Tensor) else 1
    terms = states.empty(count, width)
    for span in windows(graph, states, count * max(width, layer.in_channels), nodes):
        at = slice(*span) if nodes is None else nodes[slice(*span)]
        ids = torch.arange(*span) if isinstance(at, slice) else at
        loops = Graph.loops(ids.to(graph.indices)) if drops else None
        for sample in range(count):
            own = x.read(at) if isinstance(x, Rows) else x[at, sample]
            if loops is not None:
                own = _dropped(layer, own, loops, passes[sample])
            terms[at, sample] = plan.terms_of(layer, own, parts, mask, graph.num_src)
    return Prepared(terms, parts)


def convolved(
    layer: SampledGCNConv,
    window: Graph,
    prepared: Prepared,
    passes: Sequence[LayerPass],
    into: Tensor | None = None,
) -> Tensor:
    """The outputs of the rows of a window, ``[rows, samples, out]``.

    They are written to ``into`` where that saves a copy: the first touch of a large state costs as
    much as the sum.
    """
    sampler, parts = layer.sampler, prepared.parts
    masks, scales = list[Mask | None](), list[Tensor | None]()
    for one in passes:
        mask, scale = one.sampler, None
        if sampler is None or sampler.on_features or mask is None:
            mask = None
        else:
            mask, scale = plan._with_row_factor(sampler, window, one, mask)
        masks.append(plan.mask_of_terms(layer, mask, parts))
        scales.append(scale)
    sums = aggregate_stacked(window, prepared.terms, masks, out=into if parts == 1 else None)
    shape = *sums.shape[:2], layer.out_channels
    if not parts and into is not None and layer.out_channels >= 2 * plan.COLUMNS:
        torch.mm(sums.reshape(-1, layer.in_channels), layer.weight, out=into.flatten(0, 1))
        out = into
    elif not parts:
        out = plan._product(sums.reshape(-1, layer.in_channels), layer.weight).reshape(shape)
    else:
        out = plan.added(sums, parts)
    if any(scale is not None for scale in scales):
        out = torch.stack(
            [
                one if scale is None else one * scale
                for one, scale in zip(out.unbind(1), scales, strict=True)
            ],
            1,
        )
    if layer.bias is None:
        return out
    repeated = out.shape[1] > 1 and out.stride(1) == 0  # one sum that all samples share
    return out + layer.bias.sum(0) if repeated else out.add_(layer.bias.sum(0))


def windows(graph: Graph, states: States, width: int, rows: Tensor | None) -> list[tuple[int, int]]:
    """The ranges of rows, or of positions in ``rows``, that are computed at once."""
    count = graph.num_dst if rows is None else len(rows)
    step = states.rows_at_once(width)
    return [(first, min(first + step, count)) for first in range(0, count, step)]


def window_of(graph: Graph, span: tuple[int, int], rows: Tensor | None) -> Graph:
    """The window of a range of rows, or of positions in ``rows``."""
    return graph.window(span if rows is None else rows[slice(*span)])


def _dropped(
    layer: SampledGCNConv, x: Tensor | SparseFeatures, nodes: Graph, drawn: LayerPass
) -> Tensor | SparseFeatures:
    sampler = layer.sampler
    if layer.dropout is not None and drawn.dropout is not None:
        beside = sampler is not None
        x = plan._drop(x, layer.dropout, nodes, drawn, drawn.dropout, beside=beside)
    if sampler is not None and sampler.on_features and drawn.sampler is not None:
        x = plan._drop(x, sampler, nodes, drawn, drawn.sampler)
    return x
