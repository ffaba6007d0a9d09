"""Score a prediction on the nodes of one part of a split."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from graphdrop.config import Config
from graphdrop.inference import Predictive
from graphdrop.metrics import calibration_error, nll, pavpu


@dataclass(frozen=True)
class Scores:
    """How good a prediction is on some nodes."""

    accuracy: float
    """Of the decision that the settings name: the vote or the mean."""
    accuracy_vote: float
    accuracy_mean: float
    nll: float
    ece: float
    pavpu: float


def accuracy(predicted: Tensor, labels: Tensor) -> float:
    """The fraction of nodes whose class is right."""
    return int((predicted == labels).sum()) / len(labels)


def score(prediction: Predictive, labels: Tensor, config: Config) -> Scores:
    """All figures of a prediction; `labels` are those of its nodes, in its order."""
    settings = config.predict
    chosen = prediction.predicted
    certain = pavpu(
        prediction.probabilities,
        labels,
        settings.pavpu_threshold,
        axis=settings.pavpu_axis,
        predictions=chosen,
    )
    return Scores(
        accuracy=accuracy(chosen, labels),
        accuracy_vote=accuracy(prediction.vote, labels),
        accuracy_mean=accuracy(prediction.classes, labels),
        nll=float(nll(prediction.probabilities, labels)),
        ece=float(calibration_error(prediction.probabilities, labels)),
        pavpu=float(certain.pavpu),
    )
