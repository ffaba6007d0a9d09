"""REINFORCE with a running-mean baseline: unbiased gradients from a single hard pass."""

from __future__ import annotations

import torch
from torch import Tensor

from graphdrop.estimators.base import Estimator, Run, learned, with_gradients


class REINFORCE(Estimator):
    r"""The score-function estimator.

    .. math:: g_\phi = (f - c) \sum_{\text{distinct draws}} (z - \pi)

    with ``c`` a running mean of the losses of earlier passes. The loss of the pass itself is left
    out of it, which keeps the estimate unbiased; before the first pass ``c`` is 0. The mean is
    saved with the module's state.

    Args:
        decay: the weight of a loss falls by this factor with every pass, in [0, 1).
    """

    weighted_losses: Tensor
    total_weight: Tensor

    def __init__(self, decay: float = 0.9) -> None:
        super().__init__()
        if not 0.0 <= decay < 1.0:
            raise ValueError(f"decay must be at least 0 and below 1; got {decay}")
        self.decay = decay
        self.register_buffer("weighted_losses", torch.zeros((), dtype=torch.float64))
        self.register_buffer("total_weight", torch.zeros((), dtype=torch.float64))

    @property
    def baseline(self) -> Tensor:
        """The running mean of the losses so far, in float64."""
        # before the first pass both are 0
        return self.weighted_losses / self.total_weight.clamp(min=1.0 - self.decay)

    def loss(self, run: Run) -> Tensor:
        """The loss of one pass, with gradients for the keep logits."""
        loss, layers = run(antithetic=False)
        rates = learned(layers)
        if not rates:
            return loss
        value = loss.detach().double()
        advantage = value - self.baseline
        gradients = []
        for rate in rates:
            sums = rate.sums()
            gradients.append((rate.keep_logit, advantage * (sums.kept - sums.keep * sums.count)))
        for mean, now in ((self.weighted_losses, value.mean()), (self.total_weight, 1.0)):
            mean.mul_(self.decay).add_((1.0 - self.decay) * now)
        return with_gradients(loss, gradients)

    def extra_repr(self) -> str:
        """The decay of the baseline."""
        return f"decay={self.decay:g}"
