"""Uncertainty of predictive probabilities, and selective prediction by it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from graphdrop.inference.running_sums import central_interval, error_divisor, find_largest
from graphdrop.metrics.inputs import check_fraction, check_scores, count_at_least


class Rejection(NamedTuple):
    """The kept rows, and the threshold of their uncertainty."""

    kept: Tensor
    """A bool for every row, `[n]`, `ceil(coverage * n)` of them true."""
    threshold: float
    """The largest uncertainty among the kept rows; it can be applied to other nodes."""
    by: str
    """The uncertainty that decided."""


def keep_most_certain(uncertainties: Mapping[str, Tensor], by: str, coverage: float) -> Rejection:
    """Keep a fraction of the rows, the most certain first; ties by position.

    Args:
        uncertainties: `[n]` each, by name.
        by: the name of the one that decides.
        coverage: the share to keep, above 0 and at most 1.
    """
    if by not in uncertainties:
        known = ", ".join(map(repr, uncertainties))
        raise ValueError(f"by is {by!r}; it takes one of {known}")
    uncertainty = uncertainties[by]
    uncertainty = check_scores(uncertainty, len(uncertainty), by)
    order = uncertainty.argsort(stable=True)
    order = order[: count_at_least(check_fraction(coverage, "coverage"), len(order))]
    kept = torch.zeros_like(uncertainty, dtype=torch.bool)
    kept[order] = True
    return Rejection(kept, float(uncertainty[order[-1]]), by)


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
        return find_largest(self.standard_error)

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
        return keep_most_certain(rows, by or self.reject_by or "entropy", coverage)
