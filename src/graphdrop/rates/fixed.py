"""A keep probability that stays as it was given."""

import torch
from torch import Tensor

from graphdrop.rates.base import Rate


class FixedRate(Rate):
    """A constant keep probability, as in plain DropOut and DropEdge.

    `keep = 1` keeps everything: its logit is infinite, and `z = 1[u > 1 - keep]` is always 1. Masks
    are drawn on 16 bits, so a keep of at most 2^-17 keeps nothing.

    Args:
        keep: The probability to keep a connection, in (0, 1].
    """

    keep: Tensor

    def __init__(self, *, keep: float) -> None:
        super().__init__()
        if not 0 < keep <= 1:
            raise ValueError(
                f"keep is {keep}; it takes a probability to keep above 0 and at most 1."
                " For a drop rate d pass keep=1 - d; to drop everything, leave the layer out."
            )
        self.register_buffer("keep", torch.tensor(float(keep)))

    @property
    def keeps_all(self) -> bool:
        """Whether `keep` is 1."""
        return float(self.keep) == 1.0

    def logit(self, u: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """`logit(keep)`, shape `()`; `u` is ignored."""
        return self.keep.logit()

    def mean(self) -> Tensor:
        """`keep`."""
        return self.keep

    def kl(self) -> Tensor:
        """0: nothing is learned."""
        return torch.zeros_like(self.keep)

    def extra_repr(self) -> str:
        """The keep probability."""
        return f"keep={self.keep.item():g}"
