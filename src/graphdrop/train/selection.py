"""Model selection and early stopping by validation scores."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from torch import Tensor

from graphdrop.config import TrainSettings
from graphdrop.inference import Predictive
from graphdrop.metrics import apply_temperature, average_precision, fit_temperature, nll


@dataclass
class Selection:
    """The best evaluation so far. Epochs count from 1: the number of epochs that were trained."""

    epoch: int = 0
    """The epoch of the best state; 0 before the first evaluation."""
    accuracy: float = 0.0
    nll: float = 0.0

    def offer(self, epoch: int, accuracy: float, nll: float, settings: TrainSettings) -> bool:
        """Keep an evaluation if it is the best so far; ties go to the lower NLL."""
        if self.epoch and not _rank(accuracy, nll, settings) > _rank(
            self.accuracy, self.nll, settings
        ):
            return False
        self.epoch, self.accuracy, self.nll = epoch, accuracy, nll
        return True

    def exhausted(self, epoch: int, settings: TrainSettings) -> bool:
        """Whether patience is exhausted after this many epochs (early stopping)."""
        if not settings.patience or epoch < settings.min_epochs:
            return False
        return epoch - self.epoch >= settings.patience


def _rank(accuracy: float, nll: float, settings: TrainSettings) -> tuple[float, float]:
    return (accuracy, -nll) if settings.select == "accuracy" else (-nll, accuracy)


FEWEST = 10
"""With fewer validation nodes of a rare class its average precision is noise."""


def selection_nll(prediction: Predictive, labels: Tensor) -> float:
    """What `calibrated-nll` selects by: the tempered NLL; with rare classes also their ranking.

    Of a class with few nodes the NLL says little. Where the training nodes have such classes it is
    divided by the mean of their average precisions, so that a state which ranks them better by a
    tenth may have an NLL that is higher by a tenth.
    """
    found = tempered_nll(prediction.probabilities, labels)
    precisions = [
        float(average_precision(prediction.probabilities[:, label], labels == label))
        for label in prediction.rare_classes
        if FEWEST <= int((labels == label).sum()) < len(labels)
    ]
    return found / fmean(precisions) if precisions else found


def tempered_nll(probabilities: Tensor, labels: Tensor) -> float:
    """The NLL of probabilities ``[n, classes]`` at the temperature that is best for the labels.

    An over- or underconfident state is thereby judged as it will be after calibration.
    """
    temperature = fit_temperature(probabilities, labels)
    return float(nll(apply_temperature(probabilities, temperature), labels))
