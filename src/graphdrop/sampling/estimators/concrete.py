"""The concrete relaxation: continuous masks with a pathwise gradient."""

from __future__ import annotations

import math

from torch import Tensor

from graphdrop.graph.masks import TEMPERATURE
from graphdrop.sampling.estimators.base import Estimator, Run


class Concrete(Estimator):
    r"""The concrete (relaxed Bernoulli) estimator: one pass, low variance, biased.

    .. math:: z = \sigma\big( (\phi + \operatorname{logit} u) / t \big)

    This is eq. (12) of the paper, with both terms divided by the temperature as in the work that it
    cites. A lower temperature has less bias and more variance.

    Args:
        temperature: ``t``, above 0.

    Example:
        >>> from graphdrop import GCN, DropEdge, LearnedRate
        >>> model = GCN(3, 8, 2, 2, DropEdge(LearnedRate()), estimator=Concrete(temperature=0.5))
        >>> model.estimator
        Concrete(temperature=0.5)
    """

    def __init__(self, temperature: float = TEMPERATURE) -> None:
        super().__init__()
        if not (temperature > 0.0 and math.isfinite(temperature)):
            raise ValueError(
                f"temperature is {temperature}; it takes a finite number above 0. For hard masks "
                "use an estimator such as ARM()."
            )
        self.temperature = float(temperature)

    def loss(self, run: Run) -> Tensor:
        """The loss of one pass with relaxed masks."""
        loss, _ = run(antithetic=False)
        return loss

    def extra_repr(self) -> str:
        """The temperature."""
        return f"temperature={self.temperature:g}"
