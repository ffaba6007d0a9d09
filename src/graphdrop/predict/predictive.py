"""``predict``: sample a network several times and sum up what the samples say.

Samples are folded in a few at a time, so memory does not grow with their number, and the product
of the input with the first layer's weights, which no mask touches, is made once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from graphdrop.nn import GCN
from graphdrop.samplers import Draw

if TYPE_CHECKING:
    from torch_geometric.data import Data

Item = TypeVar("Item")

PREDICTION_STEP = 1 << 62
"""Prediction draws from steps that no training reaches."""
BINS = 1024
"""Resolution of the histograms from which intervals are read."""
DRAWN_TOGETHER = 32
"""So many samples have their rates drawn in one go."""
FOLDED_NUMBERS = 1 << 18
"""At most so many probabilities are folded in at once, but at least one sample's."""


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
    model: nn.Module,
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
        model: a ``GCN``, or any PyG model that ``attach`` was called on.
        data: a PyG ``Data`` with ``x``, ``edge_index`` and perhaps ``edge_weight``; of an attached
            model, whatever its ``forward`` takes, under the same names.
        samples: number of Monte Carlo samples; 0 gives one pass with masks in expectation.
        seed: the same seed gives the same answer.
        temperature: relaxed masks at this temperature; ``None`` draws hard ones.
        rows: the nodes to predict, by number or as a bool mask; all by default.
        intervals: also keep what ``Predictive.intervals`` needs (4 KiB per node and class).
    """
    if samples < 0:
        raise ValueError(f"samples must not be negative; got {samples}")
    draws = _draws(samples, seed, temperature)
    if not isinstance(model, GCN):
        from graphdrop.nn.attach import Handle  # noqa: PLC0415 - PyG's layers take seconds to import

        outputs = Handle(model).samples(data, draws)
        return _summed_up(outputs if rows is None else (out[rows] for out in outputs), intervals)
    was_training = model.training
    model.eval()
    try:
        with model.sharing_first_product():
            return _summed_up(_outputs(model, data, rows, draws), intervals)
    finally:
        model.train(was_training)


def _draws(samples: int, seed: int, temperature: float | None) -> Iterator[Draw | None]:
    if samples == 0:
        yield None
    for sample in range(samples):
        yield Draw(seed, PREDICTION_STEP, sample, temperature=temperature)


def _outputs(
    model: GCN, data: Any, rows: Tensor | None, draws: Iterator[Draw | None]
) -> Iterator[Tensor]:
    """The logits ``[nodes, classes]`` of each draw."""
    weight: Tensor | None = getattr(data, "edge_weight", None)
    for several in _batched(draws, DRAWN_TOGETHER):
        yield from model.samples(data.x, data.edge_index, weight, rows=rows, draws=several)


def _summed_up(outputs: Iterator[Tensor], intervals: bool) -> Predictive:
    first = next(outputs).t().contiguous()
    summary = _Summary(first, intervals)
    for several in _batched(outputs, max(1, FOLDED_NUMBERS // max(1, first.numel()))):
        summary.add(torch.stack([logits.t() for logits in several]))
    return summary.finish()


def _batched(items: Iterator[Item], size: int) -> Iterator[list[Item]]:
    while several := list(islice(items, size)):
        yield several


class _Summary:
    """Running sums over samples, in float64, classes first: so torch reads whole rows at a time.

    Spread is summed around the first sample: nothing cancels, however close the samples are.
    """

    def __init__(self, first: Tensor, intervals: bool) -> None:
        """Begin with the logits ``[classes, nodes]`` of the first sample."""
        self.origin = torch.softmax(first.double(), 0)
        self.count = 0
        self.shift = torch.zeros_like(self.origin)
        self.squares = torch.zeros_like(self.origin)
        self.entropy = torch.zeros_like(self.origin[0])
        self.votes = torch.zeros_like(self.origin, dtype=torch.int32)
        self.histogram = self.votes.new_zeros(*self.origin.shape, BINS) if intervals else None
        self.add(first[None])

    def add(self, logits: Tensor) -> None:
        """Fold in the logits ``[samples, classes, nodes]`` of several samples."""
        self.count += len(logits)
        log_probabilities = torch.log_softmax(logits.double(), 1)
        probabilities = log_probabilities.exp()
        self.entropy -= (probabilities * log_probabilities).sum((0, 1))
        if self.histogram is not None:
            bins = (probabilities * BINS).long().clamp_(max=BINS - 1).permute(1, 2, 0)
            self.histogram.scatter_add_(2, bins, torch.ones_like(bins, dtype=torch.int32))
        self.votes += _chosen(logits).sum(0, dtype=torch.int32)
        difference = probabilities.sub_(self.origin)
        self.shift += difference.sum(0)
        self.squares += difference.square_().sum(0)

    def finish(self) -> Predictive:
        mean = self.origin + self.shift / self.count
        spread = self.squares - self.shift.square() / self.count
        deviation = (spread.clamp_min(0.0) / max(self.count - 1, 1)).sqrt()
        return Predictive(
            mean.float().t().contiguous(),
            self.votes.t().contiguous(),
            (self.entropy / self.count).float(),
            deviation.float().t().contiguous(),
            self.count,
            None if self.histogram is None else self.histogram.transpose(0, 1),
        )


def _chosen(logits: Tensor) -> Tensor:
    """Which class each sample takes, one true entry per sample and node."""
    chosen = logits == logits.amax(1, keepdim=True)
    if int(chosen.sum()) > logits[:, 0].numel():  # a tie: the first class
        chosen &= chosen.cumsum(1) == 1
    return chosen
