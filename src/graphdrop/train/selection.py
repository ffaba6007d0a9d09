"""Which state is kept, and when to stop: decided by validation figures alone."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from graphdrop.config import TrainSettings
from graphdrop.metrics import apply_temperature, fit_temperature, nll


@dataclass
class Selection:
    """The best evaluation so far. Epochs count from 1: the number of epochs that were trained."""

    epoch: int = 0
    """After which the best state was reached; 0 before the first evaluation."""
    accuracy: float = 0.0
    nll: float = 0.0

    def offer(self, epoch: int, accuracy: float, nll: float, settings: TrainSettings) -> bool:
        """Take an evaluation if it is better than all before; ties go to the lower NLL."""
        if self.epoch and not _rank(accuracy, nll, settings) > _rank(
            self.accuracy, self.nll, settings
        ):
            return False
        self.epoch, self.accuracy, self.nll = epoch, accuracy, nll
        return True

    def exhausted(self, epoch: int, settings: TrainSettings) -> bool:
        """Whether patience is over after this many epochs."""
        if not settings.patience or epoch < settings.min_epochs:
            return False
        return epoch - self.epoch >= settings.patience


def _rank(accuracy: float, nll: float, settings: TrainSettings) -> tuple[float, float]:
    return (accuracy, -nll) if settings.select == "accuracy" else (-nll, accuracy)


def tempered_nll(probabilities: Tensor, labels: Tensor) -> float:
    """The NLL of probabilities ``[n, classes]`` at the temperature that is best for the labels.

    A state that is too sure or not sure enough is then judged by what a calibrator will make of it.
    """
    temperature = fit_temperature(probabilities, labels)
    return float(nll(apply_temperature(probabilities, temperature), labels))
