"""The custom op ``graphdrop::masked_sum``: Triton's masked sum with shapes and derivatives.

It takes the graph as a list of tensors, and several samples at once; the keys of masks are tensors,
so that a new step needs no compilation. Triton is imported when the op first runs: shapes can be
computed where it is not installed.
"""

# ruff: noqa: PLC0415, PLR0917 - Triton is imported at first use; an op takes its tensors one by one

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphdrop.kernels.gpu.structure import TENSORS, direction_of

_library: Any = torch.library.Library("graphdrop", "FRAGMENT")  # type: ignore[no-untyped-call]
_MASK = (
    "Tensor[] structure, Tensor rates, Tensor keys, Tensor[] table, int[] options, "
    "float temperature"
)
_library.define(f"masked_sum(Tensor x, {_MASK}) -> Tensor")
_library.define(f"masked_sum_backward(Tensor gradient, Tensor x, {_MASK}) -> (Tensor, Tensor)")
_library.define(
    "count_draws(Tensor destination, Tensor source, Tensor? rank, Tensor threshold, Tensor key, "
    "int draws, bool by_source, bool symmetric) -> Tensor"
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


def _count(
    destination: Tensor,
    source: Tensor,
    rank: Tensor | None,
    threshold: Tensor,
    key: Tensor,
    draws: int,
    by_source: bool,
    symmetric: bool,
) -> Tensor:
    from graphdrop.kernels.gpu import launch

    return launch.count_draws(
        destination, source, rank, threshold, key, draws, by_source=by_source, symmetric=symmetric
    )


def _fake_forward(
    x: Tensor, structure: list[Tensor], _rates: Tensor, keys: Tensor, *_: Any
) -> Tensor:
    return x.new_empty(structure[0].shape[0] - 1, keys.shape[0], x.shape[2])


def _fake_backward(
    gradient: Tensor, _x: Tensor, structure: list[Tensor], rates: Tensor, *_: Any
) -> tuple[Tensor, Tensor]:
    sources = structure[TENSORS].shape[0] - 1
    return gradient.new_empty(sources, *gradient.shape[1:]), torch.empty_like(rates)


def _fake_count(
    destination: Tensor, _source: Any, _rank: Any, threshold: Tensor, *_: Any
) -> Tensor:
    size = (3, destination.shape[0]) if threshold.dim() == 1 else (3,)
    return destination.new_empty(size, dtype=torch.int64)


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
    ("count_draws", _count, _fake_count),
):
    # on the CPU by Triton's interpreter, for tests
    for _device in ("CUDA", "CPU"):
        _library.impl(_name, _function, _device)
    torch.library.register_fake(f"graphdrop::{_name}", _fake, lib=_library)
