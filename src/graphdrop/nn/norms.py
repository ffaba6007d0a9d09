"""Normalization layers by name, applied in training or evaluation mode."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn.functional import batch_norm

Norm = Literal["batch", "layer"]


def norm_layer(norm: Norm | None, width: int) -> nn.Module:
    """A normalization layer of this width; the identity for ``None``."""
    if norm is None:
        return nn.Identity()
    if norm not in ("batch", "layer"):
        raise ValueError(f"norm is {norm!r}; it takes None, 'batch' or 'layer'")
    return nn.BatchNorm1d(width) if norm == "batch" else nn.LayerNorm(width)


def normalize(layer: nn.Module, x: Tensor, *, training: bool) -> Tensor:
    """The output of a normalization layer in the given mode, whatever its own mode is."""
    if isinstance(layer, nn.BatchNorm1d):
        if training and layer.num_batches_tracked is not None:
            layer.num_batches_tracked.add_(1)
        return batch_norm(
            x,
            layer.running_mean,
            layer.running_var,
            layer.weight,
            layer.bias,
            training,
            layer.momentum or 0.0,
            layer.eps,
        )
    out: Tensor = layer(x)
    return out
