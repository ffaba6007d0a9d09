"""``Mask``: the frozen description of the draws of one layer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from graphdrop.draws.table import Table

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
    """What a draw belongs to; ``Mask.blocks`` says how many draws each of them has."""

    EDGE = "edge"
    """Every edge draws its own (DropEdge, Graph DropConnect)."""
    SOURCE = "source"
    """All edges that leave a node share its draw (DropOut, node sampling)."""


@dataclass(frozen=True, eq=False)
class Mask:
    """A random mask over the connections of one layer: a description, never a matrix.

    Samplers make it, kernels read it. ``blocks`` splits the features into contiguous blocks
    whose sizes differ by at most one, each with its own draw; ``None`` gives every feature its
    own. ``keep_logit`` is a scalar, or one entry per edge in the graph's CSR order.
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
                "blocks must be a positive count, or None for a mask per feature; "
                f"got {self.blocks}"
            )
        if not self.temperature > 0.0:
            raise ValueError(f"temperature must be positive; got {self.temperature}")
        if self.keep_logit.dim() > 1:
            raise ValueError(
                "keep_logit must be a scalar or one entry per edge; "
                f"got shape {tuple(self.keep_logit.shape)}"
            )
        if self.table is not None and (self.kind is not Kind.CONCRETE or self.keep_logit.dim()):
            raise ValueError(
                "table must be left out unless the mask is concrete and has one keep_logit; got "
                f"kind {self.kind.value!r}, keep_logit of shape {tuple(self.keep_logit.shape)}"
            )
        if self.key.shape != (2,) or self.key.dtype != torch.int64:
            raise ValueError(
                "key must be an int64 tensor of 2 words, as stream_key() makes it; "
                f"got shape {tuple(self.key.shape)}, dtype {self.key.dtype}"
            )
        if self.symmetric and self.sharing is Sharing.SOURCE:
            raise ValueError(
                "symmetric masks need sharing='edge': a draw that belongs to the source node "
                "cannot be shared by both directions of an edge"
            )

    def redrawn(self, key: Tensor, keep_logit: Tensor) -> Mask:
        """The same mask with another key and, of the same shape, another rate."""
        other = object.__new__(Mask)  # nothing has to be checked again, of thousands of them
        vars(other).update(vars(self), key=key, keep_logit=keep_logit)
        return other

    def draws_per_edge(self, features: int) -> int:
        """Number of distinct draws that one edge reads over ``features`` features."""
        if self.blocks is None:
            return features
        if self.blocks > features:
            raise ValueError(
                f"blocks must not exceed the number of features; got {self.blocks} blocks "
                f"for {features} features"
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
