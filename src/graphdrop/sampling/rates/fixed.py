"""Fixed rate: a constant keep probability."""

import torch
from torch import Tensor

from graphdrop.sampling.rates.base import Rate


class FixedRate(Rate):
    """A constant keep probability, as in plain DropOut and DropEdge.

    It is the Bernoulli parameter of the paper's eq. (1) to (5). `keep = 1` keeps every connection.
    Masks are drawn with 16 bits, so that a `keep` of at most 2^-17 keeps none.

    Args:
        keep: The probability to keep a connection, in (0, 1]; by keyword only, because a plain
            number is a drop rate elsewhere in torch and PyG.

    Example:
        >>> rate = FixedRate(keep=0.8)
        >>> round(rate.mean().item(), 4), round(rate.logit().item(), 4)
        (0.8, 1.3863)
    """

    keep: Tensor

    def __init__(self, *unnamed: float, keep: float | None = None) -> None:
        super().__init__()
        if unnamed or keep is None:
            value = unnamed[0] if unnamed else "0.8"
            raise TypeError(
                f"keep is not given; FixedRate takes keep=, the probability to keep a connection."
                f" Pass keep={value}, or keep=1 - {value} if {value} is a drop rate."
            )
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
