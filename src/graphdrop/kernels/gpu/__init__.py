"""The GPU backend: masked sums in Triton, on CUDA and ROCm, with the masks of the other backends.

Masks are computed in registers and never stored; the backward pass draws them again. Sums without
a mask are those of cuSPARSE. Interpreted and compiled for real targets, it has never run on a GPU:
``check`` compares it with plain torch before it is used on one.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from functools import cache

import torch
from torch import Tensor

from graphdrop.graph import CSR
from graphdrop.graph.masks import Mask
from graphdrop.kernels.gpu.check import is_right
from graphdrop.kernels.gpu.masked import aggregate, aggregate_samples, together

__all__ = [
    "aggregate",
    "aggregate_samples",
    "has_triton",
    "is_gpu",
    "is_right",
    "is_usable",
    "supports",
    "together",
]

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
_FOUND = importlib.util.find_spec("triton") is not None


def has_triton() -> bool:
    """Whether Triton is installed."""
    return _FOUND


def is_gpu(device: torch.device) -> bool:
    """Whether the kernels are meant for a device."""
    return device.type == "cuda"


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
    if is_gpu(device):
        if not has_triton():
            _say_what_is_missing()
        return has_triton()
    # the interpreter runs kernels on the CPU
    return device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1" and has_triton()


@cache
def _say_what_is_missing() -> None:
    warnings.warn(
        "triton is not installed, so masked sums on this GPU are computed in plain torch, which "
        "draws an array of edges x features: pip install triton (torch's CUDA wheels for Linux "
        "bring it along; for ROCm it is part of torch's ROCm wheels)",
        RuntimeWarning,
        stacklevel=2,
    )
