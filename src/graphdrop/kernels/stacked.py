"""``aggregate_stacked``: Monte Carlo samples side by side in memory, in one walk over the edges.

The features of a node in all samples lie next to each other, ``[nodes, samples, features]``: the
edges of a row are read once for all samples, and so are the pages that its sources lie in.
"""

# ruff: noqa: PLR0917 - a compiled loop takes its arrays one by one

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numba import prange
from torch import Tensor

from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask
from graphdrop.kernels import cpu, gpu
from graphdrop.kernels.aggregate import aggregate, is_fused, is_on_gpu
from graphdrop.kernels.buffers import empty
from graphdrop.kernels.loops import _row_sum, compiled
from graphdrop.kernels.passes import options_of
from graphdrop.kernels.tiles import store


@torch.no_grad()
def aggregate_stacked(
    graph: Graph, x: Tensor, masks: Sequence[Mask | None], *, out: Tensor | None = None
) -> Tensor:
    """``aggregate`` of several samples, the same bits, without gradients.

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
    pass_ = cpu.pass_over(cpu.plain_structure(graph), options_of(given[0], features), features)
    rule = pass_.rule_of_samples(given)
    keys = torch.stack([mask.key for mask in given]).numpy()
    out = empty(pass_.rows, samples * features) if out is None else out.flatten(1)
    step = features if own == samples else 0
    wide = x.reshape(nodes, own * features)
    pass_.run(_sum_rows_of_stacked, (keys,), rule, wide, out, step)
    return out.view(pass_.rows, samples, features)


def stackable(graph: Graph, x: Tensor, masks: Sequence[Mask]) -> bool:
    """Whether the fused loop computes the samples of these masks in one walk."""
    return len({options_of(mask, x.shape[1]) for mask in masks}) == 1 and all(
        mask.kind in (Kind.HARD, Kind.CONCRETE)
        and mask.keep_logit.dim() == 0
        and not mask.before_normalization
        and is_fused(graph, x, mask)
        and cpu.is_plain(x)
        for mask in masks
    )


@compiled
def _sum_rows_of_stacked(
    vectors: Any,
    channel: Any,
    rule: Any,
    chunks: Any,
    indptr: Any,
    indices: Any,
    values: Any,
    row_ids: Any,
    column_ids: Any,
    ranks: Any,
    keys: Any,
    flags: Any,
    x: Any,
    out: Any,
    start: Any,
    tail: Any,
    step: Any,
) -> None:
    """``out[row, sample] = sum of value * mask * x[column, sample]``, a sample ``step`` further."""
    source, target = x.reshape(-1), out.reshape(-1)
    stride, out_stride = np.intp(x.shape[1]), np.intp(out.shape[1])
    samples = keys.shape[0]
    width = out_stride // samples
    named = row_ids.size > 0
    for chunk in prange(chunks.size - 1):
        for row in range(chunks[chunk], chunks[chunk + 1]):
            row_id = np.int64(row_ids[row]) if named else np.int64(row)
            begin, end = np.intp(indptr[row]), np.intp(indptr[row + 1])
            for sample in range(samples):
                first = np.intp(sample * step) + start
                total = _row_sum(
                    vectors, channel, rule, sample, row_id, begin, end, indices, values,
                    column_ids, ranks, keys[sample, 0], keys[sample, 1], flags,
                    source, stride, first, start, tail,
                )  # fmt: skip
                store(target, row * out_stride + sample * width + start, total, tail)
