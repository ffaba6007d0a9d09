"""What probabilities from Monte Carlo samples leave open, whatever they are probabilities of."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from graphdrop.inference.rejection import Rejection, most_certain
from graphdrop.inference.running_sums import central_interval


class Uncertainty(ABC):
    """The parts of an entropy, intervals and rejection, for classes and for labels alike."""

    expected_entropy: Tensor
    samples: int
    _histogram: Tensor | None

    @property
    @abstractmethod
    def entropy(self) -> Tensor:
        """Entropy of the mean probabilities, in nats: the whole uncertainty."""

    @property
    @abstractmethod
    def least_confidence(self) -> Tensor:
        """The probability that the more likely answer is wrong."""

    @property
    def aleatoric(self) -> Tensor:
        """What is left if the network were known: the mean of the samples' entropies."""
        return self.expected_entropy

    @property
    def epistemic(self) -> Tensor:
        """Mutual information between the label and the network: what more data would settle."""
        return (self.entropy - self.expected_entropy).clamp_min(0.0)

    def intervals(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Central interval of each probability over samples, to 1/1024: low and high."""
        return central_interval(self._histogram, self.samples, level)

    reject_by: str | None = None
    """The uncertainty that was best at finding errors on validation nodes, if that is known."""

    def reject(self, coverage: float = 0.9, by: str | None = None) -> Rejection:
        """Keep the most certain share of the rows, and refuse to answer for the others.

        A row with several labels is as uncertain as its labels together: their sum.

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
