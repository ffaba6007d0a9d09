"""``SkipConnections``: residuals, normalization layers and jumping knowledge of a GCN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm

from graphdrop.nn.features import Features, SparseFeatures, linear

INITIAL: Final = "initial"
LINEAR: Final = "linear"
Residual = bool | Literal["initial", "linear"]
Jump = Literal["cat", "max", "last"]
Norm = Literal["batch", "layer"]


class SkipConnections(nn.Module):
    """Residual connections, normalization layers and jumping knowledge between convolutions.

    Args:
        widths: number of features of the input and of every layer's output.
        out_channels: number of output features of the network.
        residual: as ``GCN`` takes it.
        norm: as ``GCN`` takes it.
        jk: as ``GCN`` takes it.
    """

    def __init__(
        self,
        widths: Sequence[int],
        out_channels: int,
        residual: Residual,
        norm: Norm | None,
        jk: Jump | None,
    ) -> None:
        super().__init__()
        if residual not in (False, True, INITIAL, LINEAR):
            raise ValueError(
                f'residual is {residual!r}; it takes False, True, "initial" or "linear".'
            )
        if jk not in (None, "cat", "max", "last"):
            raise ValueError(f'jk is {jk!r}; it takes None, "cat", "max" or "last".')
        self.residual, self.norm, self.jk = residual, norm, jk
        self.out_channels = out_channels
        hidden = widths[1:-1] if jk is None else widths[1:]
        self.norms, self.skips = nn.ModuleList(), nn.ModuleList()
        if norm is not None:
            self.norms.extend(norm_layer(norm, width) for width in hidden)
        if residual == LINEAR:
            self.skips.extend(nn.Linear(*pair) for pair in zip(widths, hidden, strict=False))
        joined = sum(hidden) if jk == "cat" else widths[-1]
        self.head = None if jk is None else nn.Linear(joined, out_channels)

    def reset_parameters(self) -> None:
        """Initialize all weights."""
        for module in (*self.norms, *self.skips, self.head):
            if module is not None:
                module.reset_parameters()

    @property
    def reads_rows(self) -> str:
        """The option that reads the rows of a layer, for error messages; empty if none."""
        if self.residual:
            return "a residual"
        return "jumping knowledge" if self.head is not None else ""

    def follow(
        self,
        number: int,
        out: Tensor,
        own: Callable[[], Features],
        initial: Callable[[], Features],
        *,
        training: bool,
    ) -> Tensor:
        """What follows a hidden convolution: the linear residual, norm and relu, then a residual.

        Args:
            number: the number of the layer.
            out: its output, ``[rows, width]`` or ``[rows, samples, width]``, which is overwritten.
            own: these rows of the layer's input.
            initial: these rows of the first layer's output.
            training: whether BatchNorm works as in training.
        """
        if self.skips:
            out = out + linear(own(), cast("nn.Linear", self.skips[number]))
        if self.norms:
            flat = normalize(self.norms[number], out.flatten(0, -2), training=training)
            out = flat.view(out.shape)
        out = out.relu_()
        if self.residual == INITIAL:
            return torch.lerp(out, cast("Tensor", initial()), 0.5) if number else out
        if self.residual is not True:
            return out
        x = own()
        x = x.to_dense() if isinstance(x, SparseFeatures) else x
        return out + x if x.shape[-1] == out.shape[-1] else out

    def join(self, layers: Sequence[Tensor]) -> Tensor:
        """Jumping knowledge: a linear layer on the outputs of all layers, for the same rows."""
        if self.head is None:
            return layers[-1]
        joined = layers[-1]
        if self.jk == "cat":
            joined = torch.cat(list(layers), -1)
        elif self.jk == "max":
            joined = torch.stack(list(layers)).amax(0)
        out: Tensor = self.head(joined)
        return out

    @property
    def joins(self) -> bool:
        """Whether the outputs of all layers are read."""
        return self.jk in ("cat", "max")


def select_rows(x: Features, ids: Tensor | None, among: Tensor | None) -> Features:
    """The rows of ``x`` with some ids, of rows whose sorted ids are ``among``.

    The rows that a user asks for are in any order; they are looked up among themselves only. In a
    mini-batch ids are in no order either, but those of the rows come first.
    """
    if ids is None or among is None:
        return x
    if torch.equal(ids, among[: len(ids)]):
        if len(ids) == x.shape[0]:
            return x
        return x[: len(ids)] if isinstance(x, Tensor) else x.select(torch.arange(len(ids)))
    position = torch.searchsorted(among, ids)
    return x[position] if isinstance(x, Tensor) else x.select(position)


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
