"""Scores of class probabilities: entropy, Brier score, likelihood, the gap of accuracies."""

import math

import torch
from torch import Tensor

from graphdrop.metrics.inputs import check_labels, check_probabilities


def predictive_entropy(probabilities: Tensor) -> Tensor:
    """The predictive entropy, `-sum_c p_c log p_c` of each example's mean probabilities.

    Args:
        probabilities: `(n, classes)`, or `(samples, n, classes)`, which is averaged first.

    Returns:
        `(n,)` in float64, between 0 and `log(classes)`.

    Example:
        >>> predictive_entropy(torch.tensor([[1.0, 0.0]])).tolist()
        [0.0]
    """
    mean = check_probabilities(probabilities)
    # Rounding can lift a uniform row an ulp above log C, where the threshold "1.0 of log C" would
    # call it uncertain.
    entropy: Tensor = torch.special.entr(mean).sum(-1)
    return entropy.clamp(0.0, math.log(mean.size(1)))


def brier_score(probabilities: Tensor, labels: Tensor) -> Tensor:
    """The Brier score, `mean_i sum_c (p_ic - 1[c = y_i])^2`, from 0 to 2; lower is better.

    Args:
        probabilities: mean probabilities `(n, classes)`, or `(samples, n, classes)`.
        labels: true class ids `(n,)`.

    Example:
        >>> brier_score(torch.tensor([[0.5, 0.5]]), torch.tensor([0])).item()
        0.5
    """
    mean = check_probabilities(probabilities)
    true_class = torch.nn.functional.one_hot(check_labels(labels, *mean.shape), mean.size(1))
    return (mean - true_class).square().sum(-1).mean()


def nll(probabilities: Tensor, labels: Tensor) -> Tensor:
    """The negative log-likelihood, `mean_i -log p_i[y_i]` in nats; lower is better.

    A probability of exactly 0 is an underflow of the softmax: it counts as the smallest normal
    number of the input's precision (a loss of 87 in float32), and the mean stays finite.
    The arguments are those of `brier_score`.

    Example:
        >>> round(nll(torch.tensor([[0.5, 0.5]]), torch.tensor([0])).item(), 4)  # log 2
        0.6931
    """
    mean = check_probabilities(probabilities)
    labels = check_labels(labels, *mean.shape)
    floor = torch.finfo(probabilities.dtype).tiny
    return -mean.gather(1, labels[:, None]).clamp(min=floor).log().mean()
