"""Warnings about a run whose result is probably not good."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphdrop.inference import Predictive
from graphdrop.inference.calibration import FEW
from graphdrop.metrics import CalibrationFloor

EARLY = 0.05
"""A selected epoch within this fraction of all epochs counts as hardly trained."""
MAJORITY = 0.98
"""A network that predicts one class for this fraction of the nodes has not learned classes."""
GAP = 0.05
"""A calibration error this much above its floor gives a warning."""
SCALES = 100.0
"""Columns of features whose standard deviations differ by this factor should be scaled."""


def warnings_of(
    answer: Any,
    targets: Tensor,
    *,
    calibration_nodes: int,
    selected_epoch: int,
    epochs: int,
    ece: float,
    floor: CalibrationFloor | None,
    x: Tensor,
) -> list[str]:
    """Warnings about a run, each with what to do.

    Args:
        answer: the prediction for the test nodes.
        targets: the targets of the test nodes.
        calibration_nodes: how many nodes the calibrator was fitted on; 0 for none.
        selected_epoch: the epoch of the selected state.
        epochs: the largest number of epochs.
        ece: calibration error on the test nodes.
        floor: the calibration error that chance alone gives.
        x: the features as the network reads them.
    """
    found = []
    if isinstance(answer, Predictive):
        found += _of_classes(answer, targets)
    if epochs >= 40 and selected_epoch <= EARLY * epochs:
        found.append(
            f"the best state is that after epoch {selected_epoch} of {epochs}: training did not "
            "help after that; lower train.learning_rate, or look at the features"
        )
    if 0 < calibration_nodes < FEW:
        found.append(
            f"there are {calibration_nodes} validation nodes to calibrate on, fewer than {FEW}: "
            "the probabilities may be off; give more"
        )
    if floor is not None and ece > floor.mean + GAP:
        found.append(
            f"the calibration error is {ece:.3f} after calibration, and chance alone gives "
            f"{floor.mean:.3f}: do not take the probabilities at their word"
        )
    if _unscaled(x):
        found.append(
            "columns of the features differ in scale by more than a factor of "
            f"{SCALES:.0f}: standardize them"
        )
    return found


def _of_classes(answer: Predictive, targets: Tensor) -> list[str]:
    predicted = answer.predicted
    share, most = predicted.bincount().max() / len(predicted), int(predicted.mode().values)
    real = float((targets == most).float().mean())
    if share >= MAJORITY and real < MAJORITY:
        return [
            f"{100 * float(share):.0f} % of the test nodes are predicted to be of class {most}, "
            f"which {100 * real:.0f} % are of: the network has not learned to tell classes apart; "
            'try model.norm_layer, model.residual = "linear", or another architecture'
        ]
    return []


def _unscaled(x: Tensor) -> bool:
    if x.layout is not torch.strided or not x.numel():
        return False
    deviation = x.double().std(0)
    some = deviation[deviation > 0]
    dense = float((x != 0).float().mean()) > 0.5
    return bool(len(some) > 1 and dense and float(some.max() / some.min()) > SCALES)
