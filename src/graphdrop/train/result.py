"""The result of a run, and warnings about one that is probably not good."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from graphdrop.calibration.floor import CalibrationFloor
from graphdrop.config import ModelSettings
from graphdrop.inference import GaussianPredictive, Predictive
from graphdrop.inference.calibrator import Calibrator
from graphdrop.metrics import ood_auroc
from graphdrop.metrics.registry import Scores

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


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a run: scores of the state that was best on the validation nodes."""

    validation: Any
    """The scores on the validation nodes: `Scores`, unless the task returns its own."""
    test: Any
    drop_rates: list[float | None]
    """The expected drop rate of each layer; None for a layer without a sampler."""
    selected_epoch: int
    epochs: int
    seconds: float
    uncalibrated: dict[str, Any] = field(default_factory=dict)
    """The scores of validation and test before calibration; empty without a calibrator."""
    calibration: dict[str, Any] = field(default_factory=dict)
    """The calibrator as JSON values, and the calibration error that chance alone gives. Its name is
    "none" where validation nodes refuted the calibrator, which is then not applied."""
    always_the_mean: dict[str, float] = field(default_factory=dict)
    """Of numbers: the RMSE on the test nodes of answering the mean of the training nodes."""
    baselines: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The scores of simple models by name: `validation`, `test` and the `seconds` of their fit."""
    warnings: list[str] = field(default_factory=list)
    """Warnings about the run, as sentences."""
    rare: list[dict[str, Any]] = field(default_factory=list)
    """For every rare class its label, name and share of the labelled training nodes, and how well
    it is found on validation and test nodes (`graphdrop.metrics.RareFigures` by name)."""

    def as_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)

    def __repr__(self) -> str:
        shown = ""
        for part, scores in (("test", self.test), ("validation", self.validation)):
            values = scores.shown() if isinstance(scores, Scores) else {}
            shown += f"{part} {', '.join(f'{n} {v:.4f}' for n, v in values.items())}; "
        rates = ", ".join("none" if rate is None else f"{rate:.3f}" for rate in self.drop_rates)
        return (
            f"Result({shown}drop rates {rates}; epoch {self.selected_epoch} of {self.epochs}, "
            f"{self.seconds:.1f} s)"
        )


def find_warnings(
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
    """Find what is probably not good about a run; every warning says what to do.

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
        remedies = []  # what is not set already
        if model is not None and model.norm_layer == "none":
            remedies.append('model.norm_layer = "layer"')
        if model is not None and model.residual is False:
            remedies.append('model.residual = "linear"')
        found.append(
            "no class of the validation nodes is ranked better than by chance: the network has not "
            f"learned to tell classes apart; try {' or '.join([*remedies, 'another architecture'])}"
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
    if x.layout is torch.strided and x.numel() and float((x != 0).float().mean()) > 0.5:
        deviation = x.double().std(0)
        deviation = deviation[deviation > 0]
        if len(deviation) > 1 and float(deviation.max() / deviation.min()) > SCALES:
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
    for label in labels.bincount().nonzero().flatten().tolist():
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
