"""``predict``: sample a network several times and sum up what the samples say.

Samples are folded in one by one, so memory does not grow with their number, and the product of
the input with the first layer's weights, which no mask touches, is made once for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphdrop.nn import GCN
from graphdrop.samplers import Draw

if TYPE_CHECKING:
    from torch_geometric.data import Data

PREDICTION_STEP = 1 << 62
"""Prediction draws from steps that no training reaches."""
BINS = 1024
"""Resolution of the histograms from which intervals are read."""


@dataclass(frozen=True, eq=False)
class Predictive:
    """A predictive distribution over classes for every node, from Monte Carlo samples."""

    probabilities: Tensor
    """Mean of the samples' softmax, ``[nodes, classes]``."""
    votes: Tensor
    """How many samples chose each class, ``[nodes, classes]``."""
    expected_entropy: Tensor
    """Mean entropy of a sample, in nats, ``[nodes]``: the aleatoric part."""
    deviation: Tensor
    """Standard deviation of a class's probability between samples, ``[nodes, classes]``."""
    samples: int
    _histogram: Tensor | None = None

    @property
    def classes(self) -> Tensor:
        """The class of highest mean probability, ``[nodes]``."""
        return self.probabilities.argmax(1)

    @property
    def vote(self) -> Tensor:
        """The class that most samples chose; ties go to the higher mean probability."""
        return (self.votes.double() + 0.5 * self.probabilities.double()).argmax(1)

    @property
    def entropy(self) -> Tensor:
        """Entropy of the mean distribution, in nats: the whole uncertainty."""
        return _entropy(self.probabilities)

    @property
    def aleatoric(self) -> Tensor:
        """What is left if the network were known: the mean of the samples' entropies."""
        return self.expected_entropy

    @property
    def epistemic(self) -> Tensor:
        """Mutual information between the label and the network: what more data would settle."""
        return (self.entropy - self.expected_entropy).clamp_min(0.0)

    def intervals(self, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Central interval of each class's probability over samples, to 1/1024: low and high."""
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1; got {level}")
        if self._histogram is None:
            raise ValueError("intervals were not kept: call predict(..., intervals=True)")
        share = self._histogram.cumsum(-1).double() / self.samples
        tail = (1.0 - level) / 2.0
        low = (share < tail).sum(-1)
        high = (share < 1.0 - tail).sum(-1) + 1
        return low.double() / BINS, high.clamp(max=BINS).double() / BINS


def _entropy(probabilities: Tensor) -> Tensor:
    entropy: Tensor = torch.special.entr(probabilities).sum(1)
    return entropy


@torch.no_grad()
def predict(
    model: GCN,
    data: Data,
    samples: int = 20,
    seed: int = 0,
    *,
    temperature: float | None = None,
    rows: Tensor | None = None,
    intervals: bool = False,
) -> Predictive:
    """Sample the network ``samples`` times on a graph, the training one or another.

    Args:
        model: a network with a sampler.
        data: a PyG ``Data`` with ``x``, ``edge_index`` and perhaps ``edge_weight``.
        samples: number of Monte Carlo samples; 0 gives one pass with masks in expectation.
        seed: the same seed gives the same answer.
        temperature: relaxed masks at this temperature; ``None`` draws hard ones.
        rows: the nodes to predict, by number or as a bool mask; all by default.
        intervals: also keep what ``Predictive.intervals`` needs (4 KiB per node and class).
    """
    if samples < 0:
        raise ValueError(f"samples must not be negative; got {samples}")
    summary = _Summary(intervals)
    was_training = model.training
    model.eval()
    try:
        with model.sharing_first_product():
            for draw in _draws(samples, seed, temperature):
                summary.add(model(data.x, data.edge_index, _weight(data), rows=rows, draw=draw))
    finally:
        model.train(was_training)
    return summary.finish()


def _draws(samples: int, seed: int, temperature: float | None) -> list[Draw | None]:
    if samples == 0:
        return [None]
    return [
        Draw(seed, PREDICTION_STEP, sample, temperature=temperature) for sample in range(samples)
    ]


def _weight(data: Any) -> Tensor | None:
    weight: Tensor | None = getattr(data, "edge_weight", None)
    return weight


class _Summary:
    """Running sums over samples."""

    def __init__(self, intervals: bool) -> None:
        self.intervals = intervals
        self.count = 0
        self.histogram: Tensor | None = None

    def add(self, logits: Tensor) -> None:
        probabilities = torch.softmax(logits.double(), 1)
        if self.count == 0:
            self.mean = torch.zeros_like(probabilities)
            self.squares = torch.zeros_like(probabilities)
            self.entropy = probabilities.new_zeros(len(probabilities))
            self.votes = torch.zeros_like(probabilities, dtype=torch.int32)
            if self.intervals:
                self.histogram = self.votes.new_zeros(*probabilities.shape, BINS)
        self.count += 1
        # Welford: no cancellation however close the samples are
        step = probabilities - self.mean
        self.mean += step / self.count
        self.squares += step * (probabilities - self.mean)
        self.entropy += _entropy(probabilities)
        node = torch.arange(len(probabilities), device=logits.device)
        self.votes[node, probabilities.argmax(1)] += 1
        if self.histogram is not None:
            bin_ = (probabilities * BINS).long().clamp(max=BINS - 1)
            self.histogram.scatter_add_(2, bin_[..., None], torch.ones_like(bin_[..., None]).int())

    def finish(self) -> Predictive:
        variance = self.squares / max(self.count - 1, 1)
        return Predictive(
            self.mean.float(),
            self.votes,
            (self.entropy / self.count).float(),
            variance.clamp_min(0.0).sqrt().float(),
            self.count,
            self.histogram,
        )
