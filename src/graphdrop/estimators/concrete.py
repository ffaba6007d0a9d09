"""The concrete relaxation: a soft mask that is differentiated like anything else."""

from __future__ import annotations

import math

from torch import Tensor

from graphdrop.draws import TEMPERATURE
from graphdrop.estimators.base import Estimator, Run


class Concrete(Estimator):
    r"""Relaxed masks and the pathwise gradient: one pass, low variance, biased.

    .. math:: z = \sigma\big( (\phi + \operatorname{logit} u) / t \big)

    The bias vanishes, and the variance grows, as the temperature falls.

    Args:
        temperature: ``t``, above 0.
    """

    def __init__(self, temperature: float = TEMPERATURE) -> None:
        super().__init__()
        if not (temperature > 0.0 and math.isfinite(temperature)):
            raise ValueError(
                f"temperature must be finite and above 0; got {temperature}. For hard masks use an "
                "estimator that draws them, such as ARM()"
            )
        self.temperature = float(temperature)

    def loss(self, run: Run) -> Tensor:
        """The loss of one pass with relaxed masks."""
        loss, _ = run(antithetic=False)
        return loss

    def extra_repr(self) -> str:
        """The temperature."""
        return f"temperature={self.temperature:g}"
