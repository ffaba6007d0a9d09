"""``SkipConnections``: residuals, normalization layers and jumping knowledge of a GCN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, cast

import torch
from torch import Tensor, nn

from graphdrop.graph import Graph
from graphdrop.nn.features import SparseFeatures
from graphdrop.nn.norms import Norm, norm_layer, normalize
from graphdrop.nn.plan import linear

INITIAL: Final = "initial"
LINEAR: Final = "linear"
Residual = bool | Literal["initial", "linear"]
Jump = Literal["cat", "max", "last"]


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
    def plain(self) -> bool:
        """Whether a hidden layer is followed by a relu alone."""
        return not self.norms and not self.skips

    @property
    def reads_rows(self) -> str:
        """The option that reads the rows of a layer, for error messages; empty if none."""
        if self.residual:
            return "a residual"
        return "jumping knowledge" if self.head is not None else ""

    def activated(
        self,
        number: int,
        outs: list[Tensor],
        inputs: Sequence[Tensor | SparseFeatures],
        part: Graph,
        *,
        training: bool,
    ) -> list[Tensor]:
        """A hidden layer's outputs with a linear residual, a normalization layer and a relu."""
        if self.skips:
            skip = cast("nn.Linear", self.skips[number])
            own = _positions(part.dst_ids, part.src_ids, outs[0])
            outs = [out + linear(x, skip)[own] for out, x in zip(outs, inputs, strict=True)]
        if self.norms:
            outs = [normalize(self.norms[number], out, training=training) for out in outs]
        return [out.relu() for out in outs]

    def joined(self, every: list[list[Tensor]], parts: list[Graph]) -> list[Tensor]:
        """Jumping knowledge: a linear layer on the outputs of all layers."""
        if self.head is None:
            return every[-1]
        if self.jk == "last":
            return [self.head(out) for out in every[-1]]
        rows = [
            [out[_positions(parts[-1].dst_ids, part.dst_ids, every[-1][0])] for out in outs]
            for outs, part in zip(every, parts, strict=True)
        ]
        passes = zip(*rows, strict=True)
        if self.jk == "cat":
            return [self.head(torch.cat(layers, 1)) for layers in passes]
        return [self.head(torch.stack(layers).amax(0)) for layers in passes]

    def with_residual(
        self,
        outs: list[Tensor],
        inputs: Sequence[Tensor | SparseFeatures],
        initial: list[Tensor],
        part: Graph,
        first: Graph,
    ) -> list[Tensor]:
        """A hidden layer's outputs with the residual of its inputs or of the first layer."""
        if self.residual == INITIAL:
            if outs is initial:
                return outs
            own = _positions(part.dst_ids, first.dst_ids, outs[0])
            return [torch.lerp(out, x[own], 0.5) for out, x in zip(outs, initial, strict=True)]
        if self.residual is not True or not _same_width(inputs[0], outs[0]):
            return outs
        own = _positions(part.dst_ids, part.src_ids, outs[0])
        return [out + x[own] for out, x in zip(outs, inputs, strict=True)]  # type: ignore[index]


def _same_width(hidden: Tensor | SparseFeatures, out: Tensor) -> bool:
    return isinstance(hidden, Tensor) and hidden.shape[1] == out.shape[1]


def _positions(ids: Tensor | None, among: Tensor | None, rows: Tensor) -> Tensor:
    """The position of each id among sorted ids; the row number if ids are row numbers.

    The rows that a user asks for are in any order; they are looked up among themselves only. In a
    mini-batch ids are in no order either, but those of the rows come first.
    """
    if ids is None or among is None or torch.equal(ids, among[: len(ids)]):
        return torch.arange(len(rows), device=rows.device)
    return torch.searchsorted(among, ids)
