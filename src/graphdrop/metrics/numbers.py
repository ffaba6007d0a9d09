"""Metrics of predicted numbers: errors of the mean, likelihood, coverage of intervals."""

from collections.abc import Sequence

import torch
from torch import Tensor


def as_columns(targets: Tensor) -> Tensor:
    """Targets `(n,)` as `(n, 1)`; others as they are."""
    return targets if targets.dim() > 1 else targets[:, None]


def root_mean_square_error(mean: Tensor, targets: Tensor) -> float:
    """The root mean square error of the predicted means; `targets` are `(n,)` or `(n, targets)`."""
    return float((mean - as_columns(targets)).double().square().mean().sqrt())


def mean_error(targets: Tensor, mean: Sequence[float] | None) -> float:
    """The root mean square error of answering the mean of the training nodes for every node.

    Args:
        targets: ``(n,)`` or ``(n, targets)``.
        mean: that of every target over the training nodes; by default over these targets.
    """
    truth = as_columns(targets).cpu().double()
    answer = truth.mean(0) if mean is None else torch.tensor(mean, dtype=torch.float64)
    return float((truth - answer).square().mean().sqrt())


def r_squared(mean: Tensor, targets: Tensor) -> float | None:
    """The share of variance explained, the mean over targets; `None` where one is constant."""
    truth = as_columns(targets).double()
    spread = truth.var(0, correction=0)
    if not bool((spread > 0).all()):
        return None
    error = (mean.double() - truth).square().mean(0)
    return float((1.0 - error / spread).mean())


def gaussian_nll(mean: Tensor, log_variance: Tensor, truth: Tensor) -> Tensor:
    """The negative log-likelihood of every entry under a Gaussian, the constant included."""
    constant = torch.log(torch.tensor(2.0 * torch.pi))
    return 0.5 * (constant + log_variance + (truth - mean).square() * (-log_variance).exp())


def interval_coverage(intervals: tuple[Tensor, Tensor], targets: Tensor) -> float:
    """The fraction of targets that lie in their intervals."""
    (low, high), truth = intervals, as_columns(targets)
    return float(((truth >= low) & (truth <= high)).double().mean())


def interval_width(intervals: tuple[Tensor, Tensor]) -> float:
    """The mean width of intervals."""
    low, high = intervals
    return float((high - low).double().mean())
