"""Running sums over Monte Carlo samples: memory does not grow with the number of samples."""

from __future__ import annotations

import math

import torch
from torch import Tensor

BINS = 1024
"""Resolution of the histograms from which intervals are read."""


class Moments:
    """Mean and spread over samples, in float64, summed around the first sample.

    There is no cancellation for samples that are close to each other.
    """

    def __init__(self, origin: Tensor) -> None:
        """Start around the values of the first sample, which is not added yet."""
        self.origin = origin
        self.count = 0
        self.shift = torch.zeros_like(origin)
        self.squares = torch.zeros_like(origin)

    def add(self, values: Tensor) -> None:
        """Add `[samples, ...]`, which is overwritten."""
        self.count += len(values)
        difference = values.sub_(self.origin)
        self.shift += difference.sum(0)
        self.squares += difference.square_().sum(0)

    @property
    def mean(self) -> Tensor:
        """The mean so far."""
        return self.origin + self.shift / self.count

    @property
    def spread(self) -> Tensor:
        """The sum of squares around the mean."""
        return (self.squares - self.shift.square() / self.count).clamp_min(0.0)

    @property
    def deviation(self) -> Tensor:
        """The standard deviation between samples; 0 for one sample."""
        return (self.spread / max(self.count - 1, 1)).sqrt()


def error_divisor(samples: int) -> float:
    """The number that turns a deviation between samples into the standard error of their mean.

    ``nan`` for one sample, which does not tell how far another would be.
    """
    return math.sqrt(samples) if samples > 1 else math.nan


def find_largest(errors: Tensor) -> float:
    """The largest entry; ``nan`` if there is none."""
    return float(errors.max()) if errors.numel() else math.nan


class Histogram:
    """How many samples had a probability in each of 1024 bins."""

    def __init__(self, like: Tensor) -> None:
        self.counts = like.new_zeros(*like.shape, BINS, dtype=torch.int32)

    def add(self, probabilities: Tensor) -> None:
        """Count `[samples, ...]`."""
        bins = (probabilities * BINS).long().clamp_(max=BINS - 1).movedim(0, -1)
        self.counts.scatter_add_(-1, bins, torch.ones_like(bins, dtype=torch.int32))


def central_interval(counts: Tensor | None, samples: int, level: float) -> tuple[Tensor, Tensor]:
    """The ends of the interval that holds the middle of the samples, each to a bin's width."""
    check_level(level)
    if counts is None:
        raise ValueError("intervals were not kept: call predict(..., intervals=True)")
    share = counts.cumsum(-1).double() / samples
    tail = (1.0 - level) / 2.0
    low = (share < tail).sum(-1)
    high = (share < 1.0 - tail).sum(-1) + 1
    return low.double() / BINS, high.clamp(max=BINS).double() / BINS


def check_level(level: float) -> None:
    """Raise if this is not a probability between 0 and 1."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level is {level}; it takes a number between 0 and 1.")
