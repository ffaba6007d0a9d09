"""Several masks in one loop over the edges, for the Monte Carlo samples of a prediction.

If samples share their input, each of its rows is read once. Bias and relu can be applied while the
result is in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask
from graphdrop.kernels import cpu, gpu
from graphdrop.kernels.aggregate import aggregate, is_fused, is_on_gpu
from graphdrop.kernels.loops import sum_rows_of_samples
from graphdrop.kernels.passes import array, options_of
from graphdrop.kernels.tiles import LANES


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
        if gpu.is_gpu(inputs[0].device) and _together_on_gpu(graph, inputs, masks):
            return _on_gpu(graph, inputs, masks, rectified_with)
        sums = [aggregate(graph, x, mask) for x, mask in zip(inputs, masks, strict=True)]
        if rectified_with is None:
            return sums
        return [torch.relu_(out.add_(rectified_with)) for out in sums]
    features = inputs[0].shape[1]
    kept = [x.contiguous() for x in inputs]
    places = [x.data_ptr() for x in kept]
    offsets = np.array([(place - places[0]) // 4 for place in places], dtype=np.int64)
    pass_ = cpu.pass_over(cpu.plain_structure(graph), options_of(masks[0], features), features)
    rule = pass_.rule_of_samples(masks)
    # every sample begins at a cache line, as it would in memory of its own
    size = pass_.rows * features
    out = torch.empty(len(masks), -(-size // LANES) * LANES)
    keys = torch.stack([mask.key for mask in masks]).numpy()
    bias = kept[0].new_empty(0) if rectified_with is None else rectified_with
    pass_.run(sum_rows_of_samples, (keys,), rule, kept[0], out, offsets, array(bias))
    return [sample[:size].view(-1, features) for sample in out.unbind()]


def _together(graph: Graph, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> bool:
    """Whether the fused loop supports these masks in one call."""
    shapes = {x.shape for x in inputs}
    forms = {options_of(mask, inputs[0].shape[1]) for mask in masks}
    return len(shapes) == len(forms) == 1 and all(
        mask.kind in (Kind.HARD, Kind.CONCRETE)
        and mask.keep_logit.dim() == 0
        and not mask.before_normalization
        and is_fused(graph, x, mask)
        and cpu.is_plain(x)
        for x, mask in zip(inputs, masks, strict=True)
    )


def _together_on_gpu(graph: Graph, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> bool:
    """Whether one launch of Triton's kernel computes these masks."""
    first = inputs[0]
    alike = all(x.shape == first.shape and x.dtype == first.dtype for x in inputs)
    return alike and gpu.together(masks, first.shape[1]) and is_on_gpu(graph, first, masks[0])


def _on_gpu(
    graph: Graph, inputs: Sequence[Tensor], masks: Sequence[Mask], bias: Tensor | None
) -> list[Tensor]:
    shared = all(x is inputs[0] for x in inputs)
    x = inputs[0].unsqueeze(1) if shared else torch.stack(list(inputs), 1)
    sums = gpu.aggregate_samples(graph, x, [mask.of_edges(graph.parent_edge) for mask in masks])
    if bias is not None:
        sums = torch.relu_(sums.add_(bias))
    return list(sums.unbind(1))
