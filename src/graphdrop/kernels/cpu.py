"""The fused sum on the CPU: one pass over the edges, with masks computed in registers.

The backward pass runs over the transpose and computes the mask again. The gradient of a keep logit
comes along with that of the input, as a sum of slopes; that of a parameter of a ``Table`` is one
more sum over the transpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphdrop.graph import CSR, Graph
from graphdrop.graph.masks import Kind, Mask, reads_all_bits
from graphdrop.kernels import loops
from graphdrop.kernels.buffers import empty
from graphdrop.kernels.passes import array, pass_over

COLDEST, COLDEST_PER_EDGE, COLDEST_PER_EDGE_OF_TOP_BITS = 0.02, 0.14, 0.12
"""The lowest temperatures of concrete masks that the loops support; see ``supports``."""


def supports(mask: Mask) -> bool:
    """Whether the factors of a concrete mask are finite in the types of the loops.

    At lower temperatures a factor of float32 (one logit per edge) or float64 overflows: sooner
    where all bits of a draw are read, of which the extreme ones have the larger factors.
    """
    if mask.kind is not Kind.CONCRETE or mask.table is not None:
        return True
    if mask.keep_logit.dim() == 0:
        return mask.temperature >= COLDEST
    if mask.temperature >= COLDEST_PER_EDGE:
        return True
    whole = reads_all_bits(mask.keep_logit, mask.temperature)
    return mask.temperature >= COLDEST_PER_EDGE_OF_TOP_BITS and not bool(whole.any())


def aggregate(graph: CSR, x: Tensor, mask: Mask) -> Tensor:
    """The masked neighbourhood sum of float32 features on the CPU."""
    rates = mask.keep_logit if mask.table is None else mask.table.parameters
    if mask.kind is not Kind.CONCRETE:
        # a hard mask has no derivative: estimators such as ARM bring their own
        rates = rates.detach()
    if torch.is_grad_enabled() and (x.requires_grad or rates.requires_grad):
        return _MaskedSum.apply(x, rates, graph, mask)  # type: ignore[no-any-return, no-untyped-call]
    return _sum(graph, x, mask)


def _sum(graph: CSR, x: Tensor, mask: Mask, *, transposed: bool = False) -> Tensor:
    pass_ = pass_over(graph, mask, x.shape[1], transposed=transposed)
    if transposed:
        mask = mask.of_edges(graph.t_edge)
    out = empty(pass_.rows, x.shape[1])
    pass_.run(loops.sum_rows, mask.key.tolist(), pass_.rule(mask), x, out)
    return out


def aggregate_side_by_side(
    graph: Graph, x: Tensor, masks: Sequence[Mask], step: int, out: Tensor | None
) -> Tensor:
    """Sums of several samples in one walk, ``[rows, samples * features]``, without gradients.

    Args:
        graph: the edges.
        x: the features of every sample side by side; those of sample ``i`` begin at ``i * step``.
        masks: of one form, with one keep logit each.
        step: the number of features of a sample, or 0 where samples share them.
        out: where to write the result.
    """
    features = step or x.shape[1]
    pass_ = pass_over(graph, masks[0], features)
    out = empty(pass_.rows, len(masks) * features) if out is None else out
    keys = torch.stack([mask.key for mask in masks]).numpy()
    pass_.run(loops.sum_rows_of_samples, (keys,), pass_.rule_of_samples(masks), x, out, step)
    return out


class _MaskedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rates: Tensor, graph: CSR, mask: Mask) -> Tensor:
        # the input is read again only to differentiate the rates
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, rates)
        ctx.graph, ctx.mask = graph, mask
        return _sum(graph, x, mask)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        (x, _rates), graph, mask = ctx.saved_tensors, ctx.graph, ctx.mask
        wants_x = ctx.needs_input_grad[0]
        if x is None:
            passed, moved = _sum(graph, gradient, mask, transposed=True), None
        elif mask.table is not None:
            passed, moved = _differentiate_table(graph, gradient, x, mask)
        else:
            passed, moved = _differentiate_logit(graph, gradient, x, mask, wants_x)
        return passed if wants_x else None, moved, None, None


def _differentiate_logit(
    graph: CSR, gradient: Tensor, x: Tensor, mask: Mask, wants_x: bool
) -> tuple[Tensor, Tensor]:
    """Gradients for the input and for the keep logit.

    The first layer's input is data: its gradient, a matrix of its size, is not written.
    """
    features, logit = gradient.shape[1], mask.keep_logit
    pass_ = pass_over(graph, mask, features, transposed=True)
    out = empty(pass_.rows if wants_x else 0, features)
    per_edge = logit.dim() == 1
    slopes = np.zeros(graph.num_entries if per_edge else pass_.rows)
    rule = pass_.rule(mask.of_edges(graph.t_edge), signed=True)
    pass_.run(loops.sum_rows_and_slopes, mask.key.tolist(), rule, gradient, out, array(x), slopes)
    slopes /= mask.temperature
    if not per_edge:
        return out, torch.tensor(slopes.sum(), dtype=logit.dtype)
    moved = torch.empty_like(logit)
    moved[graph.t_edge] = torch.from_numpy(slopes).to(logit.dtype)
    return out, moved


def _differentiate_table(
    graph: Graph, gradient: Tensor, x: Tensor, mask: Mask
) -> tuple[Tensor, Tensor]:
    """Gradients for the input and for the parameters of the table, whose slopes are tables, too."""
    table = mask.table
    assert table is not None  # noqa: S101 - whoever calls has looked
    passed = _sum(graph, gradient, mask, transposed=True)
    if not mask.self_loops:  # they move with no parameter
        loopless = torch.where(graph.self_loop, 0.0, graph.value)
        graph = graph.derived("weights without loops", lambda: graph.with_values(loopless))
    slopes = []
    for entries in table.slopes:
        steep = replace(mask, table=replace(table, multiplier=entries))
        moved = _sum(graph, gradient, steep, transposed=True)
        slopes.append(moved.mul_(x).sum(dtype=torch.float64))
    return passed, torch.stack(slopes).to(table.parameters)
