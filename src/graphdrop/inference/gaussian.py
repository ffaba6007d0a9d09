"""`GaussianPredictive`: predictive mean, aleatoric and epistemic variance of regression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from graphdrop.inference.running_sums import Moments, check_level, find_largest
from graphdrop.inference.uncertainty import Rejection, keep_most_certain


@dataclass(frozen=True, eq=False, repr=False)
class GaussianPredictive:
    """The first two moments of a mixture of Gaussians, one per Monte Carlo sample.

    All shapes are ``[nodes, targets]``. The variances add up to that of the mixture:
    ``Var[y] = E[sigma^2] + Var[mu]``.

    Example:
        >>> x = torch.ones(1, 1)
        >>> GaussianPredictive(mean=x, aleatoric=x, epistemic=x, samples=4).variance.tolist()
        [[2.0]]
    """

    mean: Tensor
    """Mean of the samples' means."""
    aleatoric: Tensor
    """Mean of the samples' variances: the noise of the data."""
    epistemic: Tensor
    """Variance of the samples' means: the uncertainty about the network."""
    samples: int
    variance_factor: Tensor | None = None
    """The factor of a calibrator, ``[targets]``, by which both variances were multiplied."""

    @property
    def standard_error(self) -> Tensor:
        """Monte Carlo standard error of ``mean``; ``nan`` for one sample.

        It is how far the mean would be with other samples of the same network.
        """
        spread = self.epistemic
        if self.variance_factor is not None:  # which leaves the means as they are
            spread = spread / self.variance_factor.to(spread)
        return (spread / (self.samples - 1 if self.samples > 1 else math.nan)).sqrt()

    @property
    def largest_error(self) -> float:
        """The largest standard error of a mean, in standard deviations of its prediction."""
        return find_largest(self.standard_error / self.variance.sqrt())

    @property
    def is_finite(self) -> bool:
        """Whether every entry is a number."""
        return bool(torch.isfinite(self.mean).all()) and bool(torch.isfinite(self.variance).all())

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.mean.shape))
        return f"{type(self).__name__}({shape}, samples={self.samples})"

    @property
    def variance(self) -> Tensor:
        """The variance of the mixture, the sum of both parts."""
        return self.aleatoric + self.epistemic

    @property
    def deviation(self) -> Tensor:
        """The standard deviation of the mixture, in the unit of the targets."""
        return self.variance.sqrt()

    @property
    def doubt(self) -> Tensor:
        """The standard deviation of a node ``[nodes]``; of several targets the geometric mean."""
        return self.deviation.double().log().mean(1).exp().float()

    def rescale(self, mean: Sequence[float], deviation: Sequence[float]) -> GaussianPredictive:
        """The prediction of ``mean + deviation * y`` from that of ``y``, one of each per target."""
        if len(mean) != self.mean.shape[1]:
            raise ValueError(
                f"the output has {self.mean.shape[1]} targets, but the network was trained on "
                f"{len(mean)}: give a decode that returns as many"
            )
        device = self.mean.device
        shift, scale = (torch.tensor(x, dtype=torch.float64) for x in (mean, deviation))
        values = (self.mean.cpu().double() * scale + shift).float().to(device)
        parts = (self.aleatoric, self.epistemic)
        aleatoric, epistemic = (
            (part.cpu().double() * scale.square()).float().to(device) for part in parts
        )
        return replace(self, mean=values, aleatoric=aleatoric, epistemic=epistemic)

    def intervals(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Central interval of the target, low and high, of a Gaussian with these two moments."""
        check_level(level)
        quantile = torch.special.ndtri(torch.tensor(0.5 + level / 2.0, dtype=torch.float64))
        reach = float(quantile) * self.variance.sqrt()
        return self.mean - reach, self.mean + reach

    def reject(self, coverage: float = 0.9, by: str = "variance") -> Rejection:
        """Selective prediction: keep the most certain fraction of the nodes, reject the others.

        With several targets their geometric mean decides, which does not depend on units.

        Args:
            coverage: the share to keep, above 0 and at most 1; it is met to within one node.
            by: the uncertainty that decides: ``"variance"``, ``"aleatoric"`` or ``"epistemic"``.
        """
        names = ("variance", "aleatoric", "epistemic")
        scores = {name: getattr(self, name).double().log().mean(1).exp() for name in names}
        return keep_most_certain(scores, by, coverage)


class GaussianSummary:
    """Running sums of the samples' means and variances."""

    def __init__(self, first: Tensor, intervals: bool) -> None:  # noqa: ARG002 - need no samples
        """Start with the shape of the first sample, means then log variances."""
        if first.dim() != 2 or first.shape[1] % 2:
            raise ValueError(
                f"the output has shape {tuple(first.shape)}, but output='gaussian' takes "
                "[nodes, 2 * targets], the means and then as many log variances: give the network "
                "as many columns, or add those of a known noise by decode="
            )
        self.moments = Moments(first.double().chunk(2, 1)[0])
        self.noise = torch.zeros_like(self.moments.origin)

    def add(self, outputs: Sequence[Tensor]) -> None:
        """Add the outputs ``[nodes, 2 * targets]`` of several samples."""
        mean, log_variance = torch.stack(list(outputs)).double().chunk(2, 2)
        self.noise += log_variance.exp().sum(0)
        self.moments.add(mean)

    def finish(self) -> GaussianPredictive:
        """The prediction from all samples."""
        count = self.moments.count
        return GaussianPredictive(
            self.moments.mean.float(),
            (self.noise / count).float(),
            (self.moments.spread / count).float(),
            count,
        )
