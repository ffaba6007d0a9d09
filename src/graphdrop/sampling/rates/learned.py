"""Learned rate: a keep probability that is a parameter, without a prior."""

import math

import torch
from torch import Tensor, nn

from graphdrop.sampling.rates.base import Rate


class LearnedRate(Rate):
    """Learned Bernoulli rate: the keep probability is a parameter, stored as its logit.

    `kl()` is `-entropy_weight * sum H(keep)` with `H` the entropy of a Bernoulli variable, the
    regularizer of the paper's section 3.1. A positive weight pulls the rate towards 1/2.

    Args:
        initial_keep: The initial keep probability, inside (0, 1).
        entropy_weight: The weight of the entropy in the objective; 0 leaves it out.
        entries: How many values a local rate holds; `None` for a single, global one.

    Example:
        >>> rate = LearnedRate(initial_keep=0.5, entropy_weight=1.0, entries=2)
        >>> rate.mean().tolist(), round(rate.kl().item(), 4)  # -2 log 2
        ([0.5, 0.5], -1.3863)
    """

    def __init__(
        self, initial_keep: float = 0.5, entropy_weight: float = 0.0, entries: int | None = None
    ) -> None:
        super().__init__(entries)
        if not 0 < initial_keep < 1:
            raise ValueError(
                f"initial_keep is {initial_keep}; it takes a probability between 0 and 1, both"
                " excluded (their logit is infinite). For a constant rate use FixedRate."
            )
        if not (entropy_weight >= 0 and math.isfinite(entropy_weight)):
            raise ValueError(
                f"entropy_weight is {entropy_weight}; it takes a finite number, 0 or more."
                " Pass 0 to leave the entropy out of the objective."
            )
        self.initial_keep = float(initial_keep)
        self.entropy_weight = float(entropy_weight)
        self.keep_logit = nn.Parameter(torch.empty(self.entries))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set every entry to `initial_keep`."""
        nn.init.constant_(
            self.keep_logit, math.log(self.initial_keep) - math.log1p(-self.initial_keep)
        )

    def logit(self, u: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """The parameter itself, in the shape of `entries`; `u` is ignored."""
        return self.keep_logit

    def mean(self) -> Tensor:
        """`sigmoid(keep_logit)`."""
        return self.keep_logit.sigmoid()

    def kl(self) -> Tensor:
        """`-entropy_weight * sum H(keep)`."""
        # H is even in the logit; written for the rarer side it cancels nothing.
        rarer = -self.keep_logit.abs()
        entropy = nn.functional.softplus(rarer) - rarer * rarer.sigmoid()
        return -self.entropy_weight * entropy.sum()

    def extra_repr(self) -> str:
        """The initial keep probability and the weight of the entropy."""
        own = f"initial_keep={self.initial_keep:g}, entropy_weight={self.entropy_weight:g}"
        return ", ".join(filter(None, (own, super().extra_repr())))
