"""Warnings about a run whose result is probably not good."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from graphdrop.calibration.floor import CalibrationFloor
from graphdrop.config import ModelSettings
from graphdrop.inference import GaussianPredictive, Predictive
from graphdrop.inference.calibrator import Calibrator
from graphdrop.metrics import ood_auroc

EARLY = 0.05
"""A selected epoch within this fraction of all epochs counts as hardly trained."""
FEW = 50
"""With fewer calibration nodes than this a calibrator is unreliable."""
CHANCE = 2.0
"""An AUROC so many standard errors above one half is not put down to chance."""
GAP = 0.05
"""A calibration error this much above its floor gives a warning."""
SCALES = 100.0
"""Columns of features whose standard deviations differ by this factor should be scaled."""


def warnings_of(
    validation: Any,
    targets: Tensor,
    *,
    model: ModelSettings | None,
    calibrator: Calibrator | None,
    calibration_nodes: int,
    selected_epoch: int,
    epochs: int,
    ece: float,
    floor: CalibrationFloor | None,
    x: Tensor,
) -> list[str]:
    """Warnings about a run, each with what to do.

    Args:
        validation: the prediction for the validation nodes.
        targets: the targets of the validation nodes.
        model: the settings of the network; ``None`` for a model of the user's own.
        calibrator: the one that is applied, if any.
        calibration_nodes: how many nodes it was fitted on.
        selected_epoch: the epoch of the selected state.
        epochs: the largest number of epochs.
        ece: calibration error on the test nodes.
        floor: the calibration error that chance alone gives.
        x: the features as the network reads them.
    """
    found = []
    if isinstance(validation, Predictive) and not _tells_classes_apart(validation, targets):
        found.append(
            "no class of the validation nodes is ranked better than by chance: the network has not "
            f"learned to tell classes apart; try {_remedies(model)}"
        )
    if epochs >= 40 and selected_epoch <= EARLY * epochs:
        found.append(
            f"the best state is that after epoch {selected_epoch} of {epochs}: training did not "
            "help after that; lower train.learning_rate, or look at the features"
        )
    enough = 0 if calibrator is None else max(FEW, calibrator.worth_from)
    if calibrator is not None and calibration_nodes < enough:
        numbers = isinstance(validation, GaussianPredictive)
        off = "intervals may be too narrow or too wide" if numbers else "probabilities may be off"
        found.append(
            f"there are {calibration_nodes} validation nodes to calibrate on, and the calibrator "
            f'"{calibrator.name}" is worth choosing from about {enough} on: the {off}; give more'
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


def _tells_classes_apart(answer: Predictive, labels: Tensor) -> bool:
    """Whether the probability of some class is higher for its nodes than chance explains.

    A rare class may be told apart well and still never be the likeliest one, so that the predicted
    classes say nothing about it. Of one class alone nothing can be told.
    """
    present = labels.bincount().nonzero().flatten().tolist()
    for label in present:
        own = labels == label
        positives, negatives = int(own.sum()), int((~own).sum())
        if not negatives:
            return True
        auroc = float(ood_auroc(answer.probabilities[:, label], own))
        # of ranks that are independent of the labels (Mann and Whitney)
        error = math.sqrt((len(labels) + 1) / (12 * positives * negatives))
        if auroc > 0.5 + CHANCE * error:
            return True
    return False


def _remedies(model: ModelSettings | None) -> str:
    """What may help a network that has learned nothing and is not set already."""
    tries = ["another architecture"]
    if model is not None and model.residual is False:
        tries.insert(0, 'model.residual = "linear"')
    if model is not None and model.norm_layer == "none":
        tries.insert(0, 'model.norm_layer = "layer"')
    return " or ".join(filter(None, (", ".join(tries[:-1]), tries[-1])))


def _unscaled(x: Tensor) -> bool:
    if x.layout is not torch.strided or not x.numel():
        return False
    deviation = x.double().std(0)
    some = deviation[deviation > 0]
    dense = float((x != 0).float().mean()) > 0.5
    return bool(len(some) > 1 and dense and float(some.max() / some.min()) > SCALES)
