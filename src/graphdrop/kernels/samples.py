"""Several masks in one walk over the edges, as the samples of a prediction take them.

One call serves them all, and where they share their input each row of it is fetched once. The bias
and the relu that may follow are applied before a result leaves the registers.
"""

# ruff: noqa: PLR0917 - a compiled loop takes its arrays one by one

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numba import prange
from torch import Tensor

from graphdrop.draws import Kind, Mask
from graphdrop.graph import Graph
from graphdrop.kernels import cpu
from graphdrop.kernels.aggregate import aggregate, is_fused
from graphdrop.kernels.channels import Constant
from graphdrop.kernels.loops import _ONE, AHEAD, FAR, KEEP_LOOPS, RUN, _edge_bits, _kernel
from graphdrop.kernels.multipliers import accumulate
from graphdrop.kernels.passes import array, options_of
from graphdrop.kernels.tiles import LANES, add, prefetch, rectified, store, zeros


@torch.no_grad()
def aggregate_samples(
    graph: Graph,
    inputs: Sequence[Tensor],
    masks: Sequence[Mask],
    *,
    rectified_with: Tensor | None = None,
) -> list[Tensor]:
    """``aggregate(graph, x, mask)`` of each input and mask, the same bits, without gradients.

    Args:
        graph: the edges.
        inputs: features ``[num_src, features]``, of one shape; they may be one and the same.
        masks: as many masks.
        rectified_with: a bias ``[features]`` to add before a relu; without it there is neither.
    """
    if not _together(graph, inputs, masks):
        sums = [aggregate(graph, x, mask) for x, mask in zip(inputs, masks, strict=True)]
        if rectified_with is None:
            return sums
        return [torch.relu_(out.add_(rectified_with)) for out in sums]
    features = inputs[0].shape[1]
    kept = [x.contiguous() for x in inputs]
    places = [x.data_ptr() for x in kept]
    offsets = np.array([(place - places[0]) // 4 for place in places], dtype=np.int64)
    pass_ = cpu.pass_over(cpu.plain_structure(graph), options_of(masks[0], features), features)
    rule = pass_.rule_of_samples(
        [mask.keep_logit for mask in masks], [mask.temperature for mask in masks]
    )
    # every sample begins at a cache line, as it would in memory of its own
    size = pass_.rows * features
    out = torch.empty(len(masks), -(-size // LANES) * LANES)
    keys = torch.stack([mask.key for mask in masks]).numpy()
    bias = kept[0].new_empty(0) if rectified_with is None else rectified_with
    pass_.run(sum_rows_of_samples, (keys,), rule, kept[0], out, offsets, array(bias))
    return [sample[:size].view(-1, features) for sample in out.unbind()]


def _together(graph: Graph, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> bool:
    """Whether the fused loop can take these masks in one walk."""
    shapes = {x.shape for x in inputs}
    forms = {options_of(mask, inputs[0].shape[1]) for mask in masks}
    return len(shapes) == len(forms) == 1 and all(
        mask.kind in (Kind.HARD, Kind.CONCRETE)
        and mask.keep_logit.dim() == 0
        and not mask.before_normalisation
        and is_fused(graph, x, mask)
        and cpu.is_plain(x)
        for x, mask in zip(inputs, masks, strict=True)
    )


@_kernel
def sum_rows_of_samples(
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
    offsets: Any,
    bias: Any,
) -> None:
    """``out[sample, row] = sum of value * mask * x[column]``, each sample with its mask and ``x``.

    The inputs lie at ``offsets`` from the first. With a bias it is ``relu(bias + sum)``.
    """
    source, target = x.reshape(-1), out.reshape(-1)
    stride, out_stride = np.intp(x.shape[1]), np.intp(out.shape[1])
    last = np.intp(indices.size - 1)
    ranked = ranks.size > 0
    named = row_ids.size > 0
    rectifies = bias.size > 0
    samples, runs = keys.shape[0], chunks.size - 1
    apart = offsets.min() != offsets.max()
    for task in prange(samples * runs):
        # an input that all share is read a chunk at a time, those of their own one after the other
        sample = task // runs if apart else task % samples
        chunk = task % runs if apart else task // samples
        key0, key1 = keys[sample, 0], keys[sample, 1]
        first = np.intp(offsets[sample]) + start
        for row in range(chunks[chunk], chunks[chunk + 1]):
            row_id = np.int64(row_ids[row]) if named else np.int64(row)
            total = zeros(vectors)
            begin, end = np.intp(indptr[row]), np.intp(indptr[row + 1])
            while begin < end:
                stop = min(begin + RUN, end)
                part = zeros(vectors)
                for edge in range(begin, stop):
                    if flags & FAR:
                        ahead = np.intp(indices[min(edge + AHEAD, last)])
                        prefetch(source, ahead * stride + first, vectors)
                    column_id = np.int64(column_ids[edge])
                    rank = np.int64(ranks[edge]) if ranked else np.int64(0)
                    bits = _edge_bits(row_id, column_id, rank, key0, key1, flags)
                    offset = np.intp(indices[edge]) * stride + first
                    if (flags & KEEP_LOOPS) and row_id == column_id:
                        part = accumulate(
                            part,
                            source,
                            offset,
                            tail,
                            values[edge],
                            bits,
                            sample,
                            start,
                            channel,
                            Constant(_ONE),
                        )
                    else:
                        part = accumulate(
                            part,
                            source,
                            offset,
                            tail,
                            values[edge],
                            bits,
                            sample,
                            start,
                            channel,
                            rule,
                        )
                total = add(total, part)
                begin = stop
            if rectifies:
                total = rectified(total, bias, start, tail)
            store(target, sample * out_stride + row * stride + start, total, tail)
