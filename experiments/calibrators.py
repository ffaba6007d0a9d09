"""``reproduce calibration``: every calibrator on one network, under the protocol of GETS.

Nodes are divided at random, 20 % to train on, 10 % to select and calibrate on, 70 % to test on. One
trained network is scored by all calibrators: a record has a line of scores for each.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from graphdrop.calibration import calibration_floor
from graphdrop.calibration.fit import calibrate
from graphdrop.config import Config
from graphdrop.data import Dataset
from graphdrop.data.splits import random_fractions
from graphdrop.data.validate import MASKS
from graphdrop.inference import Predictive
from graphdrop.inference.predictive import PREDICTION_STEP, make_draws, resolve_settings
from graphdrop.metrics import calibration_error, nll

if TYPE_CHECKING:
    from graphdrop.nn.defaults import Masks
    from graphdrop.train import Trainer

CALIBRATORS = (
    "none",
    "temperature",
    "entropy-temperature",
    "vector",
    "isotonic",
    "cagcn",
    "gats",
)
BINS = 10
"""Of the calibration error, as in GETS."""
FLOOR_DRAWS = 50
Share = Annotated[float, Field(gt=0, lt=1)]


class Divided(Config):
    """All settings of a run whose nodes are divided at random; what is left is tested on."""

    train_share: Share
    """Of every class, to train on."""
    validation_share: Share
    """Of every class, to select and calibrate on."""

    def divided(self, dataset: Dataset) -> Dataset:
        """The dataset with that division; its seed is that of the settings' split."""
        shares = self.train_share, self.validation_share
        rest = 1.0 - sum(shares)
        split = random_fractions(dataset.data.y, *shares, rest, seed=self.data.split_seed)
        data = copy.copy(dataset.data)
        for name, mask in zip(MASKS, (split.train, split.val, split.test), strict=True):
            data[name] = mask
        return replace(dataset, data=data, split=split)


@torch.no_grad()
def calibrator_scores(trainer: Trainer) -> dict[str, Any]:
    """The test scores of every calibrator, with samples and, of DropOut, with masks off too."""
    views: dict[str, Masks | None] = {"sampled": None}
    if trainer.config.model.method == "GCN-DO":
        views["off"] = "off"
    return {
        "calibrators": {name: dict(_by_calibrator(trainer, masks)) for name, masks in views.items()}
    }


def all_logits(trainer: Trainer, masks: Masks | None = None) -> Tensor:
    """Logits of every sample and node, ``[samples, n, classes]``."""
    draws = make_draws(resolve_settings(trainer.run.engine, masks=masks), PREDICTION_STEP)
    return torch.stack(list(trainer.run.engine.samples(trainer.run.inputs, draws, None)))


def _by_calibrator(trainer: Trainer, masks: Masks | None) -> Iterator[tuple[str, dict[str, float]]]:
    logits, data = all_logits(trainer, masks), trainer.data
    fitted, tested = trainer.rows["calibration"], trainer.rows["test"]
    labels = data.y[tested]
    for name in CALIBRATORS:
        calibrator = None
        if name != "none":
            calibrator = calibrate(logits, data.y, name, data=data, mask=fitted)
        forecast = Predictive.from_logits(logits, data, calibrator).probabilities
        again = None if calibrator is None else forecast[fitted]
        floor = calibration_floor(forecast[tested], again, bins=BINS, draws=FLOOR_DRAWS)
        yield (
            name,
            {
                "accuracy": float((forecast[tested].argmax(1) == labels).double().mean()),
                "nll": float(nll(forecast[tested], labels)),
                "ece": float(calibration_error(forecast[tested], labels, bins=BINS)),
                "ece_floor": floor.mean,
                "ece_floor_high": floor.high,
            },
        )
