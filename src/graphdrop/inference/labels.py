"""`LabelPredictive`: predictive probabilities of multi-label and link prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from graphdrop.inference.running_sums import Histogram, Moments
from graphdrop.inference.uncertainty import Uncertainty


@dataclass(frozen=True, eq=False, repr=False)
class LabelPredictive(Uncertainty):
    """Predictive probability of every label or link, estimated by Monte Carlo samples.

    All shapes are that of the output: ``[nodes, labels]``, ``[links]``.

    Example:
        >>> zeros = torch.zeros(1, 2)
        >>> LabelPredictive(torch.tensor([[0.9, 0.2]]), zeros, zeros, samples=4).labels.tolist()
        [[True, False]]
    """

    probabilities: Tensor
    """Mean of the samples' sigmoid."""
    expected_entropy: Tensor
    """Mean entropy of a sample, in nats: the aleatoric part."""
    deviation: Tensor
    """Standard deviation of the probability between samples."""
    samples: int
    _histogram: Tensor | None = None

    @property
    def is_finite(self) -> bool:
        """Whether every entry is a number."""
        return bool(torch.isfinite(self.probabilities).all())

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.probabilities.shape))
        return f"{type(self).__name__}({shape}, samples={self.samples})"

    @property
    def labels(self) -> Tensor:
        """Whether the probability is above one half, as bools."""
        return self.probabilities > 0.5

    @property
    def entropy(self) -> Tensor:
        """Entropy of each entry's mean probability, in nats: the whole uncertainty."""
        yes = self.probabilities
        entropy: Tensor = torch.special.entr(yes) + torch.special.entr(1.0 - yes)
        return entropy

    @property
    def least_confidence(self) -> Tensor:
        """The mean probability of the less likely answer."""
        return torch.minimum(self.probabilities, 1.0 - self.probabilities)


class LabelSummary:
    """Running sums of the samples' sigmoid."""

    def __init__(self, first: Tensor, intervals: bool) -> None:
        """Start with the shape of the logits of the first sample."""
        self.moments = Moments(torch.sigmoid(first.double()))
        self.entropy = torch.zeros_like(self.moments.origin)
        self.histogram = Histogram(first) if intervals else None

    def add(self, outputs: Sequence[Tensor]) -> None:
        """Add the logits of several samples."""
        logits = torch.stack(list(outputs)).double()
        yes = torch.sigmoid(logits)
        for sign in (logits, -logits):
            self.entropy -= (torch.sigmoid(sign) * logsigmoid(sign)).sum(0)
        if self.histogram is not None:
            self.histogram.add(yes)
        self.moments.add(yes)

    def finish(self) -> LabelPredictive:
        """The prediction from all samples."""
        count = self.moments.count
        return LabelPredictive(
            self.moments.mean.float(),
            (self.entropy / count).float(),
            self.moments.deviation.float(),
            count,
            None if self.histogram is None else self.histogram.counts,
        )
