"""``Mask``: the immutable description of the random mask of one layer, and its ``Table``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import torch
from torch import Tensor

from graphdrop.graph.masks.generator import DRAW_BITS

TEMPERATURE = 0.67  # the paper's, for relaxed masks


class Kind(StrEnum):
    """How a uniform becomes a mask."""

    NONE = "none"
    """No mask: every connection is kept."""
    HARD = "hard"
    """Bernoulli: 1 where the uniform exceeds the drop probability, else 0."""
    CONCRETE = "concrete"
    """The relaxed Bernoulli, differentiable in the keep logit."""
    MEAN = "mean"
    """The expectation: the keep probability itself, nothing drawn."""


class Sharing(StrEnum):
    """Whether a draw belongs to an edge or to a source node; ``Mask.blocks`` says how many."""

    EDGE = "edge"
    """Every edge has its own draws (DropEdge, Graph DropConnect)."""
    SOURCE = "source"
    """All edges that leave a node share its draws (DropOut, node sampling)."""


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


@dataclass(frozen=True, eq=False)
class Mask:
    """A random mask over the connections of one layer: a description, never a matrix.

    Samplers make it, kernels read it. ``blocks`` splits the features into contiguous blocks
    whose sizes differ by at most one, each with its own draw; ``None`` gives every feature its
    own. ``keep_logit`` is a scalar, or one entry per edge of the whole graph in its CSR order; the
    edges of a part or a mini-batch read theirs by ``Graph.parent_edge``.
    """

    kind: Kind
    keep_logit: Tensor
    key: Tensor
    sharing: Sharing = Sharing.EDGE
    blocks: int | None = 1
    symmetric: bool = False
    """(u, v) and (v, u) share one draw."""
    self_loops: bool = True
    """Self-loops are masked like any edge; otherwise they are always kept."""
    temperature: float = TEMPERATURE
    antithetic: bool = False
    """Use 1 - u in place of every u: the second pass of ARM."""
    before_normalization: bool = False
    """Mask the adjacency matrix and normalize what is left, instead of the reverse."""
    table: Table | None = None
    """A concrete mask in place of that of the keep logit, which is then its rate's mean."""

    def __post_init__(self) -> None:
        if self.blocks is not None and self.blocks < 1:
            raise ValueError(
                f"blocks is {self.blocks}; it takes a whole number of at least 1, or None for a "
                "draw per feature."
            )
        if not self.temperature > 0.0:
            raise ValueError(f"temperature is {self.temperature}; it takes a number above 0.")
        if self.keep_logit.dim() > 1:
            raise ValueError(
                f"keep_logit has shape {tuple(self.keep_logit.shape)}; it takes a scalar or one "
                "entry per edge."
            )
        if self.table is not None and (self.kind is not Kind.CONCRETE or self.keep_logit.dim()):
            raise ValueError(
                "table must be left out unless the mask is concrete and has one keep_logit; got "
                f"kind {self.kind.value!r}, keep_logit of shape {tuple(self.keep_logit.shape)}"
            )
        if self.key.shape != (2,) or self.key.dtype != torch.int64:
            raise ValueError(
                f"key has shape {tuple(self.key.shape)} and dtype {self.key.dtype}; it takes an "
                "int64 tensor of shape (2,). Use stream_key(seed, step, layer, sample)."
            )
        if self.symmetric and self.sharing is Sharing.SOURCE:
            raise ValueError(
                "symmetric is True; it takes sharing='edge', because a draw of a source node "
                "cannot be shared by both directions of an edge. Pass symmetric=False."
            )

    def of_edges(self, edges: Tensor | None) -> Mask:
        """The mask of some edges of the whole graph, by their numbers; ``None`` for all."""
        if edges is None or self.keep_logit.dim() == 0:
            return self
        return replace(self, keep_logit=self.keep_logit.index_select(0, edges))

    def redrawn(self, key: Tensor, keep_logit: Tensor) -> Mask:
        """The same mask with another key, and another keep logit of the same shape."""
        other = object.__new__(Mask)  # nothing has to be checked again, of thousands of them
        vars(other).update(vars(self), key=key, keep_logit=keep_logit)
        return other

    def draws_per_edge(self, features: int) -> int:
        """Number of distinct draws that one edge reads over ``features`` features."""
        if self.blocks is None:
            return features
        if self.blocks > features:
            raise ValueError(
                f"blocks is {self.blocks}; it takes at most the number of features, {features}. "
                "Use fewer blocks, or None for a draw per feature."
            )
        return self.blocks


def block_of_feature(
    features: int, blocks: int | None, device: torch.device | None = None
) -> Tensor:
    """The block (hence the number of the draw) of each feature; sizes differ by at most one."""
    index = torch.arange(features, device=device)
    if blocks is None:
        return index
    size, larger = divmod(features, blocks)
    return torch.where(
        index < larger * (size + 1),
        index // (size + 1),
        larger + (index - larger * (size + 1)) // max(size, 1),
    )
