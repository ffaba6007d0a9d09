"""The GPU backend: masked sums in Triton, on CUDA and ROCm, with the masks of the other backends.

Masks are computed in registers and never stored; the backward pass draws them again. Sums without
a mask are those of cuSPARSE. Interpreted and compiled for real targets, it has never run on a GPU.
"""

# ruff: noqa: PLR0917 - an op takes its tensors one by one

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from graphdrop.graph import CSR, Graph
from graphdrop.graph.masks import Kind, Mask, Sharing
from graphdrop.kernels.gpu.op import masked_sum
from graphdrop.kernels.gpu.structure import structure_of
from graphdrop.kernels.gpu.unmasked import unmasked_sum
from graphdrop.kernels.passes import options_of

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


_FOUND = importlib.util.find_spec("triton") is not None


def has_triton() -> bool:
    """Whether Triton is installed."""
    return _FOUND


def is_interpreted() -> bool:
    """Whether Triton's interpreter is asked for, which runs kernels on the CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def supports(graph: CSR, x: Tensor, mask: Mask) -> bool:
    """Whether the kernels compute these sums; ``is_usable`` tells whether they run there."""
    value = graph.value
    return (
        x.dtype in FLOATS
        and value.dtype == torch.float32
        and value.device == x.device
        and mask.keep_logit.is_floating_point()
    )


def is_usable(device: torch.device) -> bool:
    """Whether Triton computes on a device; one warning says what to install where it is missing."""
    if device.type == "cuda":
        if not has_triton():
            _say_what_is_missing()
        return has_triton()
    return device.type == "cpu" and is_interpreted() and has_triton()


@cache
def _say_what_is_missing() -> None:
    warnings.warn(
        "triton is not installed, so masked sums on this GPU are computed in plain torch, which "
        "draws an array of edges x features: pip install triton (torch's CUDA wheels for Linux "
        "bring it along; for ROCm it is part of torch's ROCm wheels)",
        RuntimeWarning,
        stacklevel=2,
    )


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


def count_draws(
    destination: Tensor,
    source: Tensor,
    rank: Tensor | None,
    mask: Mask,
    threshold: Tensor,
    draws: int,
) -> Tensor:
    """The sum of draws, those kept and those kept in the antithetic pass: ``[3]`` or ``[3, E]``."""
    counted: Tensor = torch.ops.graphdrop.count_draws(
        destination,
        source,
        rank,
        threshold,
        mask.key.to(destination.device, non_blocking=True),
        draws,
        mask.sharing is Sharing.SOURCE,
        mask.symmetric,
    )
    return counted
