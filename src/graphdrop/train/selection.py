"""Model selection and early stopping by validation scores."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphdrop.calibration.temperature import TemperatureScaling
from graphdrop.config import TrainSettings
from graphdrop.metrics import nll


@dataclass
class Selection:
    """The best evaluation so far. Epochs count from 1: the number of epochs that were trained."""

    epoch: int = 0
    """The epoch of the best state; 0 before the first evaluation."""
    accuracy: float = 0.0
    nll: float = 0.0

    def offer(self, epoch: int, accuracy: float, nll: float, settings: TrainSettings) -> bool:
        """Keep an evaluation if it is the best so far; ties go to the lower NLL."""
        new, best = (accuracy, -nll), (self.accuracy, -self.nll)
        if settings.select != "accuracy":
            new, best = new[::-1], best[::-1]
        if self.epoch and not new > best:
            return False
        self.epoch, self.accuracy, self.nll = epoch, accuracy, nll
        return True

    def is_exhausted(self, epoch: int, settings: TrainSettings) -> bool:
        """Whether patience is exhausted after this many epochs (early stopping)."""
        return settings.patience > 0 and epoch - self.epoch >= settings.patience


def tempered_nll(probabilities: Tensor, labels: Tensor) -> float:
    """The NLL of probabilities ``[n, classes]`` at the temperature that is best for the labels.

    An over- or underconfident state is thereby judged as it will be after calibration.
    """
    logits = probabilities.double().clamp_min(torch.finfo(probabilities.dtype).tiny).log()
    scaling = TemperatureScaling.fit(lambda: iter(logits[None]), labels)
    return float(nll(torch.softmax(scaling.correct(logits), 1), labels))
