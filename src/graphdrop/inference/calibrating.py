"""``calibrate``: fit a calibrator to a prediction, to samples, or to the logits of any model."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from graphdrop.inference.calibration import Calibrator, calibrator_for
from graphdrop.inference.classes import Predictive
from graphdrop.inference.labels import LabelPredictive


@torch.no_grad()
def calibrate(
    answer: Predictive | LabelPredictive | Tensor, labels: Tensor, method: str = "temperature"
) -> Calibrator:
    """Fit a calibrator on nodes that the weights were not fitted to, such as validation nodes.

    Args:
        answer: the prediction for these nodes: logits ``[n, classes]`` of any model, logits of
            several samples ``[samples, n, classes]``, or a ``Predictive``, whose mean is then
            calibrated.
        labels: their labels ``[n]``.
        method: ``"temperature"`` or ``"vector"``; ignored for a ``LabelPredictive``, which has a
            method of its own.

    Returns:
        A calibrator, for ``predict(model, data, calibrator=...)``, which applies it to every
        sample, or for ``apply(calibrator, prediction)``.

    Example:
        >>> logits = torch.tensor([[4.0, 0.0], [0.0, 4.0], [4.0, 0.0], [4.0, 0.0]])
        >>> calibrator = calibrate(logits, torch.tensor([0, 1, 0, 1]))
        >>> round(apply(calibrator, logits).max().item(), 2)  # right three times of four
        0.75
    """
    output = "labels" if isinstance(answer, LabelPredictive) else "classes"
    outputs = _outputs(answer)
    if len(labels) != outputs.shape[1]:
        raise ValueError(
            f"labels has {len(labels)} entries for {outputs.shape[1]} predictions: give one for "
            "each, such as answer of val_mask and y[val_mask]"
        )
    return calibrator_for(method, output).fit(lambda: iter(outputs), labels)


@torch.no_grad()
def apply(calibrator: Calibrator, answer: Predictive | Tensor) -> Predictive | Tensor:
    """Apply a calibrator to a prediction, or to the logits of any model; returns probabilities.

    Only the mean is calibrated: the parts of the entropy are then undefined, and the prediction has
    ``calibrated == "mean"``.
    """
    probabilities = torch.softmax(calibrator.correct(_outputs(answer)).double(), -1).mean(0)
    if not isinstance(answer, Predictive):
        return probabilities.float()
    unknown = torch.full_like(answer.expected_entropy, torch.nan)
    return replace(
        answer,
        probabilities=probabilities.float(),
        expected_entropy=unknown,
        decision="mean",
        calibrated="mean",
    )


def _outputs(answer: Predictive | LabelPredictive | Tensor) -> Tensor:
    """Logits ``[samples, n, ...]``."""
    if isinstance(answer, Predictive):
        return answer.probabilities.clamp_min(torch.finfo(torch.float32).tiny).log()[None]
    if isinstance(answer, LabelPredictive):
        return torch.logit(answer.probabilities.clamp(1e-7, 1.0 - 1e-7))[None]
    return answer if answer.dim() == 3 else answer[None]
