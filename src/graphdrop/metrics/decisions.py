"""How often predicted classes and labels are right."""

import torch
from torch import Tensor


def accuracy(predicted: Tensor, labels: Tensor) -> float:
    """The fraction of nodes whose class is right; both arguments are `(n,)`."""
    return int((predicted == labels).sum()) / len(labels)


def per_class_recall(predicted: Tensor, labels: Tensor) -> Tensor:
    """The fraction of each class's nodes whose class is right, `(classes that occur,)`."""
    present = labels.bincount().nonzero().flatten()
    hits = [(predicted[labels == label] == label).double().mean() for label in present]
    return torch.stack(hits)


def macro_f1(predicted: Tensor, labels: Tensor) -> float:
    """The mean of the classes' F1, over the classes that occur in `labels`; both are `(n,)`."""
    scores = []
    for label in labels.bincount().nonzero().flatten():
        truth, said = labels == label, predicted == label
        scores.append(2.0 * float((truth & said).sum()) / float(truth.sum() + said.sum()))
    return sum(scores) / len(scores)


def label_accuracy(predicted: Tensor, targets: Tensor) -> float:
    """The fraction of right entries; both arguments are `(n, labels)`, a yes is above one half."""
    return float(((predicted > 0.5) == (targets > 0.5)).double().mean())


def label_nll(probabilities: Tensor, targets: Tensor) -> float:
    """The mean negative log-likelihood of all entries."""
    yes = probabilities.double()
    chance = torch.where(targets > 0.5, yes, 1.0 - yes).clamp_min(torch.finfo(torch.float32).tiny)
    return float(-chance.log().mean())


def micro_f1(predicted: Tensor, targets: Tensor) -> float:
    """F1 of all entries together."""
    truth, said = targets > 0.5, predicted > 0.5
    hits = float((truth & said).sum())
    return 2.0 * hits / max(1.0, float(truth.sum() + said.sum()))
