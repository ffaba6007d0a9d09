"""Proper scoring rules: the Brier score and the negative log-likelihood of the labels."""

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from graphdrop.metrics.inputs import check_labels, check_probabilities


def brier_score(probabilities: Tensor, labels: Tensor) -> Tensor:
    """The Brier score, `mean_i sum_c (p_ic - 1[c = y_i])^2`, from 0 to 2; lower is better.

    Args:
        probabilities: mean probabilities `(n, classes)`, or `(samples, n, classes)`.
        labels: true class ids `(n,)`.

    Example:
        >>> brier_score(torch.tensor([[0.5, 0.5]]), torch.tensor([0])).item()
        0.5
    """
    return _squared_distances(probabilities, labels).mean()


def nll(probabilities: Tensor, labels: Tensor) -> Tensor:
    """The negative log-likelihood, `mean_i -log p_i[y_i]` in nats; lower is better.

    A probability of exactly 0 is an underflow of the softmax: it counts as the smallest normal
    number of the input's precision (a loss of 87 in float32), and the mean stays finite.
    The arguments are those of `brier_score`.

    Example:
        >>> round(nll(torch.tensor([[0.5, 0.5]]), torch.tensor([0])).item(), 4)  # log 2
        0.6931
    """
    return _surprises(probabilities, labels).mean()


class MeanOverExamples(Metric):
    """The mean of a loss over the examples of all batches."""

    full_state_update = False
    higher_is_better = False
    total: Tensor
    examples: Tensor

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("total", torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("examples", torch.tensor(0), dist_reduce_fx="sum")

    def add(self, losses: Tensor) -> None:
        """Count the losses `(n,)` of a batch."""
        self.total += losses.sum()
        self.examples += losses.numel()

    def compute(self) -> Tensor:
        """The mean over all examples of all batches."""
        return self.total / self.examples


class BrierScore(MeanOverExamples):
    """`brier_score` over batches."""

    def update(self, probabilities: Tensor, labels: Tensor) -> None:
        """Add a batch of probabilities `(n, classes)` and labels `(n,)`."""
        self.add(_squared_distances(probabilities, labels))


class NLL(MeanOverExamples):
    """`nll` over batches."""

    def update(self, probabilities: Tensor, labels: Tensor) -> None:
        """Add a batch of probabilities `(n, classes)` and labels `(n,)`."""
        self.add(_surprises(probabilities, labels))


def _squared_distances(probabilities: Tensor, labels: Tensor) -> Tensor:
    mean = check_probabilities(probabilities)
    labels = check_labels(labels, *mean.shape)
    true_class = torch.nn.functional.one_hot(labels, mean.size(1))
    return (mean - true_class).square().sum(-1)


def _surprises(probabilities: Tensor, labels: Tensor) -> Tensor:
    mean = check_probabilities(probabilities)
    labels = check_labels(labels, *mean.shape)
    floor = torch.finfo(probabilities.dtype).tiny
    return -mean.gather(1, labels[:, None]).squeeze(1).clamp(min=floor).log()
