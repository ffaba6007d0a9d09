"""Uncertainty of predictive probabilities: total, aleatoric, epistemic."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from graphdrop.inference.rejection import Rejection, most_certain
from graphdrop.inference.running_sums import central_interval, error_divisor, largest


class Uncertainty(ABC):
    """Base class of `Predictive` and `LabelPredictive`: entropy, intervals, rejection."""

    expected_entropy: Tensor
    deviation: Tensor
    samples: int
    _histogram: Tensor | None

    @property
    @abstractmethod
    def entropy(self) -> Tensor:
        """Entropy of the mean probabilities, in nats: the total uncertainty."""

    @property
    @abstractmethod
    def least_confidence(self) -> Tensor:
        """The probability that the more likely answer is wrong."""

    @property
    def standard_error(self) -> Tensor:
        """Monte Carlo standard error of each mean probability; ``nan`` for one sample."""
        return self.deviation / error_divisor(self.samples)

    @property
    def largest_error(self) -> float:
        """The largest standard error of a probability; ``nan`` where none is known."""
        return largest(self.standard_error)

    @property
    def aleatoric(self) -> Tensor:
        """Aleatoric uncertainty: the mean entropy of the samples."""
        return self.expected_entropy

    @property
    def epistemic(self) -> Tensor:
        """Epistemic uncertainty: the mutual information between label and network."""
        return (self.entropy - self.expected_entropy).clamp_min(0.0)

    def intervals(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Central interval of each probability over samples, to 1/1024: low and high."""
        return central_interval(self._histogram, self.samples, level)

    reject_by: str | None = None
    """The uncertainty that was best at finding errors on validation nodes, if that is known."""

    def reject(self, coverage: float = 0.9, by: str | None = None) -> Rejection:
        """Selective prediction: keep the most certain fraction of the rows, reject the others.

        The uncertainty of a row with several labels is their sum.

        Args:
            coverage: the share to keep, above 0 and at most 1; it is met to within one row.
            by: the uncertainty that decides: ``"entropy"``, ``"aleatoric"``, ``"epistemic"`` or
                ``"least_confidence"``; by default ``reject_by``, or else the entropy. The result
                says which one it was.
        """
        names = ("entropy", "aleatoric", "epistemic", "least_confidence")
        scores = {name: getattr(self, name) for name in names}
        rows = {name: score[:, None].flatten(1).sum(1) for name, score in scores.items()}
        return most_certain(rows, by or self.reject_by or "entropy", coverage)
