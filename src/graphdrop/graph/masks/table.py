"""``Table``: a relaxed mask written out, one multiplier for every draw that it distinguishes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphdrop.graph.masks.generator import DRAW_BITS


@dataclass(frozen=True, eq=False)
class Table:
    """The multipliers of a concrete mask whose distribution is not that of one keep logit.

    A draw ``k`` of 16 bits reads the entry of its top bits: 12 of them, or all (``shift``). The
    multipliers and slopes are constants; ``parameters`` has the way back to the rate. A gradient
    reaches it through the slopes, the derivatives of the multipliers.
    """

    multiplier: Tensor
    """``[2**bits]`` float64, rising with the draw."""
    slopes: Tensor
    """``[parameters, 2**bits]`` float64: the derivative of each by each parameter."""
    parameters: Tensor
    """``[parameters]``."""

    def __post_init__(self) -> None:
        entries, count = self.multiplier.numel(), self.parameters.numel()
        fits = entries & (entries - 1) == 0 and 0 < entries <= 1 << DRAW_BITS
        if not fits or self.slopes.shape != (count, entries):
            raise ValueError(
                f"a table takes a power of 2 of multipliers, at most {1 << DRAW_BITS}, and slopes "
                f"[parameters, multipliers]; got {entries} multipliers, {count} parameters and "
                f"slopes of shape {tuple(self.slopes.shape)}"
            )

    @property
    def shift(self) -> int:
        """How many of the low bits of a draw it does not read."""
        return DRAW_BITS - (self.multiplier.numel().bit_length() - 1)

    def read(self, values: Tensor, dtype: torch.dtype) -> Tensor:
        """The multipliers of 16-bit draws, with a gradient for the parameters."""
        entries = self.multiplier
        if self.parameters.requires_grad:
            parameters = self.parameters.double()
            entries = entries + (parameters - parameters.detach()) @ self.slopes
        # picked in float64: the gradient of an entry is a sum over all draws that read it
        return entries[values >> self.shift].to(dtype)
