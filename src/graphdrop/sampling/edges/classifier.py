"""Classes of nodes from their features alone: ridge regression with exact leave-one-out answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

RIDGES = np.logspace(-2.0, 2.0, 9)
SCALES = np.exp(np.arange(-1.0, 4.0, 0.25))


@dataclass(frozen=True)
class Classifier:
    """A ridge regression of classes on features of length 1, with probabilities.

    Args:
        weights: ``[features, classes]``, the inverse temperature included.
        prior: the share of each class, ``[classes]``.
    """

    weights: Tensor
    prior: Tensor

    def predict(self, unit: csr_array) -> Tensor:
        """The class probabilities of rows, ``[rows, classes]`` float64."""
        logits = torch.from_numpy(unit @ self.weights.double().numpy())
        return torch.softmax(logits + self.prior.double().log(), 1)


def fit_classifier(
    unit: csr_array, nodes: Tensor, labels: Tensor, num_classes: int
) -> tuple[Classifier, Tensor]:
    """Fit to labelled nodes; penalty and temperature have the best leave-one-out likelihood.

    Args:
        unit: features of all nodes, rows of length 1.
        nodes: numbers of the labelled nodes.
        labels: the class of each of them.
        num_classes: number of classes.

    Returns:
        The classifier, and the probabilities of the labelled nodes, each without its own label.
    """
    own = unit[nodes.numpy()]
    classes = labels.numpy()
    targets = np.eye(num_classes)[classes]
    prior = (targets.sum(0) + 1.0) / (len(targets) + num_classes)
    residual = targets - prior
    values, vectors = np.linalg.eigh((own @ own.T).toarray())
    rotated, squares = vectors.T @ residual, vectors**2
    best, chosen = -np.inf, (0.0, np.zeros(()), np.zeros(()))
    for ridge in RIDGES:
        shrunk = 1.0 / (values.clip(0.0) + ridge)
        dual = vectors @ (shrunk[:, None] * rotated)
        left_out = residual - dual / (squares @ shrunk)[:, None]
        for scale in SCALES:
            logits = torch.from_numpy(scale * left_out + np.log(prior))
            logs = torch.log_softmax(logits, 1)
            score = float(logs[torch.arange(len(classes)), labels].mean())
            if score > best:
                best, chosen = score, (scale, dual, logs.exp().numpy())
    scale, dual, answers = chosen
    weights = torch.from_numpy(scale * (own.T @ dual))
    return Classifier(weights, torch.from_numpy(prior)), torch.from_numpy(answers)
