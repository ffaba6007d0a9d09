"""Masked sums on a GPU: the custom op ``graphdrop::masked_sum`` with shapes and derivatives.

It takes the graph as a list of tensors, and several samples at once; the keys of masks are tensors,
so that a new step needs no compilation. Triton is imported when the op first runs: shapes can be
computed where it is not installed.
"""

# ruff: noqa: PLC0415, PLR0917 - Triton is imported at first use; an op takes its tensors one by one

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphdrop.graph import CSR, Graph
from graphdrop.graph.masks import Kind, Mask
from graphdrop.kernels.gpu.structure import TENSORS, direction_of, structure_of
from graphdrop.kernels.gpu.unmasked import unmasked_sum
from graphdrop.kernels.passes import options_of

_library: Any = torch.library.Library("graphdrop", "FRAGMENT")  # type: ignore[no-untyped-call]
_MASK = (
    "Tensor[] structure, Tensor rates, Tensor keys, Tensor[] table, int[] options, "
    "float temperature"
)
_library.define(f"masked_sum(Tensor x, {_MASK}) -> Tensor")
_library.define(f"masked_sum_backward(Tensor gradient, Tensor x, {_MASK}) -> (Tensor, Tensor)")


def aggregate(graph: CSR, x: Tensor, mask: Mask) -> Tensor:
    """The masked neighbourhood sum, ``[num_dst, features]``, in the type of ``x``."""
    if mask.kind is Kind.NONE or not isinstance(graph, Graph):
        return unmasked_sum(graph, x)
    if mask.kind is Kind.MEAN and mask.keep_logit.dim() == 0 and mask.self_loops:
        return unmasked_sum(graph, x) * torch.sigmoid(mask.keep_logit.detach()).to(x)
    return aggregate_samples(graph, x.unsqueeze(1), [mask]).squeeze(1)


def aggregate_samples(graph: Graph, x: Tensor, masks: Sequence[Mask]) -> Tensor:
    """Masked sums of several samples in one launch, ``[num_dst, samples, features]``.

    Args:
        graph: the edges.
        x: ``[num_src, samples, features]``, or ``[num_src, 1, features]`` that samples share.
        masks: of one form, none without a mask: they differ in key, keep logit and table alone.
    """
    first = masks[0]
    keys = torch.stack([mask.key for mask in masks]).to(x.device, non_blocking=True)
    table: list[Tensor] = []
    if first.table is not None:
        entries = torch.stack([mask.table.multiplier for mask in masks if mask.table is not None])
        table = [
            entries.to(x.device, torch.float32),
            first.table.slopes.to(x.device, torch.float32),
        ]
        rates = first.table.parameters
    else:
        rates = torch.stack([mask.keep_logit for mask in masks])
    if first.kind is not Kind.CONCRETE:
        # a hard mask has no derivative: estimators such as ARM bring their own
        rates = rates.detach()
    options = [int(one) for one in options_of(first, x.shape[2])]
    return masked_sum(
        x, structure_of(graph), rates.to(x.device), keys, table, options, first.temperature
    )


def together(masks: Sequence[Mask], features: int) -> bool:
    """Whether masks are of one form, so that one launch computes their sums."""
    forms = {
        (
            options_of(mask, features),
            mask.temperature,
            mask.keep_logit.shape,
            None if mask.table is None else mask.table.multiplier.shape,
        )
        for mask in masks
    }
    return len(forms) == 1 and all(
        mask.kind is not Kind.NONE and not mask.before_normalization for mask in masks
    )


def masked_sum(
    x: Tensor,
    structure: list[Tensor],
    rates: Tensor,
    keys: Tensor,
    table: list[Tensor],
    options: list[int],
    temperature: float,
) -> Tensor:
    """Masked sums of several samples, ``[rows, samples, features]``.

    Args:
        x: ``[columns, samples or 1, features]``.
        structure: the graph, by ``structure_of``.
        rates: keep logits ``[samples]`` or ``[samples, E]``; the parameters of a table.
        keys: of the masks, ``[samples, 2]``.
        table: empty, or the multipliers of a table and the slopes of its parameters.
        options: of the masks, by ``passes.options_of``.
        temperature: of concrete masks.
    """
    out: Tensor = torch.ops.graphdrop.masked_sum(
        x, structure, rates, keys, table, options, temperature
    )
    return out


def _forward(
    x: Tensor,
    structure: list[Tensor],
    rates: Tensor,
    keys: Tensor,
    table: list[Tensor],
    options: list[int],
    temperature: float,
) -> Tensor:
    from graphdrop.kernels.gpu import launch

    rule = launch.rule_of(options, rates, keys, temperature, table[0] if table else None)
    return launch.sum_rows(direction_of(structure, transposed=False), x, rule)[0]


def _backward(
    gradient: Tensor,
    x: Tensor,
    structure: list[Tensor],
    rates: Tensor,
    keys: Tensor,
    table: list[Tensor],
    options: list[int],
    temperature: float,
) -> tuple[Tensor, Tensor]:
    """Gradients for the input and, unless ``x`` is left out (flat), for the rates."""
    from graphdrop.kernels.gpu import launch

    rule = launch.rule_of(options, rates, keys, temperature, table[0] if table else None)
    by_source = direction_of(structure, transposed=True)
    if x.dim() == 1:
        return launch.sum_rows(by_source, gradient, rule)[0], torch.zeros_like(rates)
    if not table:
        out, slopes = launch.sum_rows(by_source, gradient, rule, x)
        assert slopes is not None  # noqa: S101 - they were asked for
        return out, (slopes / temperature).to(rates.dtype)
    moved = [launch.sum_rows(by_source, gradient, rule, x, one) for one in table[1].unbind()]
    slopes = torch.stack([slope.sum() for _, slope in moved if slope is not None])
    return moved[0][0], slopes.to(rates.dtype)


def _fake_forward(
    x: Tensor, structure: list[Tensor], _rates: Tensor, keys: Tensor, *_: Any
) -> Tensor:
    return x.new_empty(structure[0].shape[0] - 1, keys.shape[0], x.shape[2])


def _fake_backward(
    gradient: Tensor, _x: Tensor, structure: list[Tensor], rates: Tensor, *_: Any
) -> tuple[Tensor, Tensor]:
    sources = structure[TENSORS].shape[0] - 1
    return gradient.new_empty(sources, *gradient.shape[1:]), torch.empty_like(rates)


class _MaskedSum(torch.autograd.Function):
    """The forward pass with the backward pass as its derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rates: Tensor, structure: list[Tensor], *rest: Any) -> Tensor:
        # the input is read again only to differentiate the rates
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else x.new_empty(0), rates)
        ctx.structure, ctx.rest, ctx.own = structure, rest, x.shape[1]
        with torch._C._AutoDispatchBelowAutograd():
            return masked_sum(x, structure, rates, *rest)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        x, rates = ctx.saved_tensors
        to_x, to_rates = torch.ops.graphdrop.masked_sum_backward(
            gradient, x, ctx.structure, rates, *ctx.rest
        )
        wants_x, wants_rates = ctx.needs_input_grad[:2]
        if to_x.shape[1] > ctx.own:  # samples that share their input
            to_x = to_x.sum(1, keepdim=True)
        gradients = to_x if wants_x else None, to_rates if wants_rates else None
        return (*gradients, *[None] * (1 + len(ctx.rest)))


def _differentiable(x: Tensor, structure: list[Tensor], rates: Tensor, *rest: Any) -> Tensor:
    if torch.is_grad_enabled() and (x.requires_grad or rates.requires_grad):
        return _MaskedSum.apply(  # type: ignore[no-any-return, no-untyped-call]
            x, rates, structure, *rest
        )
    with torch._C._AutoDispatchBelowAutograd():
        return masked_sum(x, structure, rates, *rest)


_library.impl("masked_sum", _differentiable, "Autograd")
for _name, _function, _fake in (
    ("masked_sum", _forward, _fake_forward),
    ("masked_sum_backward", _backward, _fake_backward),
):
    # on the CPU by Triton's interpreter, for tests
    for _device in ("CUDA", "CPU"):
        _library.impl(_name, _function, _device)
    torch.library.register_fake(f"graphdrop::{_name}", _fake, lib=_library)
