"""Split conformal prediction: sets of classes with a guaranteed coverage."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import torch
from torch import Tensor

from graphdrop.metrics.inputs import check_labels, check_probabilities, choose, count_at_least


class ConformalScore(StrEnum):
    """The nonconformity score of a class."""

    LAC = "lac"
    """`1 - p_c`: the smallest sets on average, at times empty."""
    APS = "aps"
    """The probability of the classes above c, and of c itself or a random part of it: sets that
    grow with the difficulty of the example."""


@dataclass(frozen=True)
class SplitConformal:
    """Prediction sets calibrated on held-out examples; make one with `SplitConformal.fit`.

    A set holds the classes whose score is at most `threshold`. If calibration and new examples are
    exchangeable (for nodes of one graph: split at random), it holds the true class with probability
    at least `coverage`, whatever the model.
    """

    score: ConformalScore
    coverage: float
    threshold: float
    classes: int
    randomised: bool

    @classmethod
    def fit(
        cls,
        probabilities: Tensor,
        labels: Tensor,
        coverage: float = 0.9,
        score: ConformalScore | str = ConformalScore.LAC,
        generator: torch.Generator | None = None,
    ) -> Self:
        """Take the k-th smallest score of the true classes, `k = ceil((n + 1) * coverage)`.

        The n + 1 is the correction for a finite set. When k > n no threshold is large enough, and
        the sets hold every class.

        Args:
            probabilities: mean probabilities of the calibration examples `(n, classes)`, or
                `(samples, n, classes)`.
            labels: their true class ids `(n,)`; neither trained nor tested on.
            coverage: how often a set should hold the true class, in (0, 1).
            score: LAC or APS.
            generator: makes APS count a random part of a class's own probability, for sets that are
                not larger than they need to be; without it the whole of it counts.

        Example:
            >>> probabilities = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]])
            >>> sets = SplitConformal.fit(probabilities, torch.tensor([0, 1, 0]), coverage=0.5)
            >>> sets.prediction_sets(torch.tensor([[0.95, 0.05]])).tolist()
            [[True, False]]
        """
        if not 0 < coverage < 1:
            raise ValueError(
                f"coverage is {coverage}; it takes a number between 0 and 1, such as 0.9"
            )
        score = choose(ConformalScore, score, "score")
        if generator is not None and score is not ConformalScore.APS:
            raise ValueError(
                f"generator is given, but the score {score.value!r} is not random: leave it out, "
                "or use 'aps'"
            )
        mean = check_probabilities(probabilities)
        examples, classes = mean.shape
        labels = check_labels(labels, examples, classes)
        true_class = _drawn_scores(mean, score, generator).gather(1, labels[:, None]).squeeze(1)
        threshold = conformal_threshold(true_class, coverage)
        return cls(score, coverage, threshold, classes, generator is not None)

    def prediction_sets(
        self, probabilities: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Which classes are in each example's set: boolean `(n, classes)`.

        Args:
            probabilities: mean probabilities `(n, classes)`, or `(samples, n, classes)`.
            generator: needed if and only if `fit` was given one; its draws must be fresh ones, so
                pass the same object or one with another seed.
        """
        if (generator is not None) != self.randomised:
            was, do = ("with", "pass") if self.randomised else ("without", "leave out")
            raise ValueError(f"fit was called {was} a generator: {do} generator here too")
        mean = check_probabilities(probabilities)
        if mean.size(1) != self.classes:
            raise ValueError(
                f"probabilities has {mean.size(1)} classes, but fit saw {self.classes}: "
                "calibrate on the same classes"
            )
        return _drawn_scores(mean, self.score, generator) <= self.threshold


def conformal_scores(mean: Tensor, score: ConformalScore, uniform: Tensor | None = None) -> Tensor:
    """The score of every class, `(n, classes)`.

    Args:
        mean: probabilities `(n, classes)`.
        score: LAC or APS.
        uniform: for APS, the part of a class's own probability that counts, `(n,)` in [0, 1); the
            whole of it by default.
    """
    if score is ConformalScore.LAC:
        return 1 - mean
    falling, order = mean.sort(dim=-1, descending=True, stable=True)
    own: Tensor | float = 1.0 if uniform is None else uniform[:, None].to(mean)
    ranked = falling.cumsum(-1) - falling * (1 - own)
    return torch.empty_like(mean).scatter_(-1, order, ranked)


def conformal_threshold(true_class: Tensor, coverage: float) -> float:
    """The k-th smallest score of the true classes, `k = ceil((n + 1) * coverage)`, or infinity."""
    examples = true_class.numel()
    rank = count_at_least(coverage, examples + 1)
    return float(true_class.sort().values[rank - 1]) if rank <= examples else math.inf


def _drawn_scores(mean: Tensor, score: ConformalScore, generator: torch.Generator | None) -> Tensor:
    uniform = None
    if generator is not None:
        uniform = torch.rand(mean.size(0), generator=generator, dtype=mean.dtype)
    return conformal_scores(mean, score, uniform)
