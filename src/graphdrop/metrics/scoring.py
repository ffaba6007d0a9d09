"""How right predictions are: classes, labels of yes and no, and numbers."""

import math
from collections.abc import Sequence

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


def accuracy(predicted: Tensor, labels: Tensor) -> float:
    """The fraction of nodes whose class is right; both arguments are `(n,)`."""
    return int((predicted == labels).sum()) / len(labels)


def per_class_recall(predicted: Tensor, labels: Tensor) -> Tensor:
    """The fraction of each class's nodes whose class is right, `(classes that occur,)`."""
    present = labels.bincount().nonzero().flatten()
    return torch.stack([(predicted == labels)[labels == c].double().mean() for c in present])


def macro_f1(predicted: Tensor, labels: Tensor) -> float:
    """The mean of the classes' F1, over the classes that occur in `labels`; both are `(n,)`."""
    present = labels.bincount().nonzero().flatten().tolist()
    return sum(micro_f1(predicted == c, labels == c) for c in present) / len(present)


def micro_f1(predicted: Tensor, targets: Tensor) -> float:
    """F1 of all entries together; a yes is above one half."""
    truth, said = targets > 0.5, predicted > 0.5
    return 2.0 * int((truth & said).sum()) / max(1, int(truth.sum() + said.sum()))


def label_accuracy(predicted: Tensor, targets: Tensor) -> float:
    """The fraction of right entries; both arguments are `(n, labels)`, a yes is above one half."""
    return float(((predicted > 0.5) == (targets > 0.5)).double().mean())


def label_nll(probabilities: Tensor, targets: Tensor) -> float:
    """The mean negative log-likelihood of all entries."""
    yes = probabilities.double()
    chance = torch.where(targets > 0.5, yes, 1.0 - yes).clamp_min(torch.finfo(torch.float32).tiny)
    return float(-chance.log().mean())


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
