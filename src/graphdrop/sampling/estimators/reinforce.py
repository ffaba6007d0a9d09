"""REINFORCE: unbiased gradients from one pass with hard masks, with a running-mean baseline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor

from graphdrop.io.devices import has_float64, to_float64
from graphdrop.sampling.estimators.base import Estimator, Run, learned, with_gradients


class REINFORCE(Estimator):
    r"""REINFORCE, the score-function estimator, with a baseline.

    .. math:: g_\phi = (f - c) \sum_{\text{distinct draws}} (z - \pi)

    The baseline ``c`` is an exponential moving average of the losses of earlier passes. It leaves
    out the present loss, so that the estimate is unbiased; before the first pass it is 0. It is
    part of the module's state.

    Args:
        decay: decay of the moving average per pass, in [0, 1).

    Example:
        >>> from graphdrop import GCN, DropEdge, LearnedRate
        >>> model = GCN(3, 8, 2, 2, DropEdge(LearnedRate()), estimator=REINFORCE(decay=0.9))
        >>> model.estimator.baseline.item()
        0.0
    """

    weighted_losses: Tensor
    total_weight: Tensor

    def __init__(self, decay: float = 0.9) -> None:
        super().__init__()
        if not 0.0 <= decay < 1.0:
            raise ValueError(f"decay is {decay}; it takes a number of at least 0 and below 1.")
        self.decay = decay
        self.register_buffer("weighted_losses", torch.zeros((), dtype=torch.float64))
        self.register_buffer("total_weight", torch.zeros((), dtype=torch.float64))

    @property
    def baseline(self) -> Tensor:
        """The moving average of the losses so far, a float64 scalar."""
        # before the first pass both are 0
        return self.weighted_losses / self.total_weight.clamp(min=1.0 - self.decay)

    def loss(self, run: Run) -> Tensor:
        """The loss of one pass; its backward pass estimates the gradients of the rates."""
        loss, layers = run(antithetic=False)
        rates = learned(layers)
        if not rates:
            return loss
        value = to_float64(loss.detach())
        advantage = value - self.baseline
        gradients = []
        for rate in rates:
            sums = rate.sums()
            kept, count = (one.to(sums.keep.device) for one in (sums.kept, sums.count))
            gradients.append((rate.keep_logit, advantage * (kept - sums.keep * count)))
        for mean, now in ((self.weighted_losses, value.mean()), (self.total_weight, 1.0)):
            mean.mul_(self.decay).add_((1.0 - self.decay) * now)
        return with_gradients(loss, gradients)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        if not has_float64(fn(torch.zeros(())).device):  # the baseline stays on the CPU
            return self
        return super()._apply(fn, recurse)  # type: ignore[no-any-return, no-untyped-call]

    def extra_repr(self) -> str:
        """The decay of the baseline."""
        return f"decay={self.decay:g}"
