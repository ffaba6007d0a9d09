"""Masked sums of several Monte Carlo samples, without gradients.

Where the samples lie next to each other in memory, ``[nodes, samples, features]``, one walk over
the edges computes them all: the edges of a row are read once, and so are the pages of its sources.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask
from graphdrop.kernels import cpu, gpu
from graphdrop.kernels.aggregate import aggregate, is_fused, is_on_gpu
from graphdrop.kernels.passes import Form


@torch.no_grad()
def aggregate_stacked(
    graph: Graph, x: Tensor, masks: Sequence[Mask | None], *, out: Tensor | None = None
) -> Tensor:
    """``aggregate`` of several samples, without gradients.

    Args:
        graph: the edges.
        x: features of the sources, ``[num_src, samples, features]``, or ``[num_src, 1, features]``
            for samples that share them.
        masks: the mask of each sample; ``None`` keeps all.
        out: where the result may be written, contiguous.

    Returns:
        ``[num_dst, samples, features]``.

    Example:
        >>> graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), normalization="row")
        >>> aggregate_stacked(graph, torch.ones(2, 1, 4), [None, None]).shape
        torch.Size([2, 2, 4])
    """
    nodes, own, features = x.shape
    samples = len(masks)
    if own not in (1, samples):
        raise ValueError(
            f"x has shape {tuple(x.shape)}; with {samples} masks it takes shape "
            f"[{graph.num_src}, {samples} or 1, features]."
        )
    if all(mask is None for mask in masks):
        sums = aggregate(graph, x.reshape(nodes, own * features))
        return sums.view(graph.num_dst, own, features).expand(-1, samples, -1)
    given = [mask for mask in masks if mask is not None]
    if len(given) < samples or not stackable(graph, x.select(1, 0), given):
        alike = len(given) == samples and gpu.together(given, features)
        if alike and is_on_gpu(graph, x, given[0]):
            return gpu.aggregate_samples(
                graph, x, [mask.of_edges(graph.parent_edge) for mask in given]
            )
        parts = [
            aggregate(graph, x[:, min(sample, own - 1)], mask) for sample, mask in enumerate(masks)
        ]
        return parts[0][:, None] if samples == 1 else torch.stack(parts, 1)
    wide, flat = x.reshape(nodes, own * features), None if out is None else out.flatten(1)
    step = features if own == samples else 0
    sums = cpu.aggregate_side_by_side(graph, wide, given, step, flat)
    return sums.view(graph.num_dst, samples, features)


def stackable(graph: Graph, x: Tensor, masks: Sequence[Mask]) -> bool:
    """Whether the fused loop computes the samples of these masks in one walk."""
    return len({Form.of(mask, x.shape[1]) for mask in masks}) == 1 and all(
        mask.kind in (Kind.HARD, Kind.CONCRETE)
        and mask.keep_logit.dim() == 0
        and not mask.before_normalization
        and is_fused(graph, x, mask)
        for mask in masks
    )
