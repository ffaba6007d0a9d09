"""``reproduce worth``: a run of the controlled experiment, and what its record keeps.

One trained network is scored in every way of predicting that its row asks for, calibrated anew in
each on the validation nodes. On a public split the outcome at every test node is kept, so that a
difference can be given an interval over seeds and nodes; with `certainty` also how sure it was.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from experiments.left_out_class import MEMBER_STRIDE
from experiments.measures import BINS, scores
from experiments.perturbed_features import feature_noise
from graphdrop.calibration import Calibrator, calibration_floor
from graphdrop.calibration.fit import calibrate
from graphdrop.calibration.temperature import EntropyTemperatureScaling
from graphdrop.config import Config
from graphdrop.inference import Predictive
from graphdrop.inference.predictive import PREDICTION_STEP, make_draws, resolve_settings
from graphdrop.metrics import ood_auroc, pavpu_curve, predictive_entropy

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from graphdrop.nn.defaults import Masks
    from graphdrop.train import Trainer

FLOOR_DRAWS = 50
NOISY = 0.5
"""The share of the test nodes whose features are replaced by noise."""
OWN = "own"
THRESHOLDS = tuple(k / 20 for k in range(10, 21))
"""Of PAvPU, as fractions of the largest entropy: those of the paper's figure."""


class View(NamedTuple):
    """A way of predicting with a trained network; `None` leaves it as the settings have it."""

    masks: Masks | None = None
    samples: int | None = None


VIEWS: Mapping[str, View] = {
    OWN: View(),
    "masks off": View("off"),
    "expected masks": View("expected"),
    "100 samples": View(samples=100),
}


class Controlled(Config):
    """All settings of a run of the controlled experiment."""

    views: str = OWN
    """The ways of predicting that are scored, separated by commas."""
    members: Annotated[int, Field(ge=1)] = 1
    """Networks of an ensemble, which differ in the seed alone."""
    nodes: bool = False
    """Whether the outcome at every test node is kept."""
    certainty: bool = False
    """Whether confidence and entropy at every test node are kept as well."""

    def member_configs(self) -> list[Config]:
        """The settings of every network."""
        given = {name: getattr(self, name) for name in Config.model_fields}
        return [
            Config(**given | {"seed": self.seed + MEMBER_STRIDE * member})
            for member in range(self.members)
        ]


@torch.no_grad()
def controlled_scores(trainers: Sequence[Trainer], config: Controlled) -> dict[str, Any]:
    """The scores of every view; those of the settings' own way stand by themselves."""
    by_view = {name: _of_view(trainers, config, VIEWS[name]) for name in config.views.split(",")}
    first = trainers[0]
    return {
        **by_view.pop(OWN),
        "views": by_view,
        "tested": len(first.rows["test"]),
        "fitted": len(first.rows["train"]) + len(first.rows["validation"]),
    }


def _of_view(trainers: Sequence[Trainer], config: Controlled, view: View) -> dict[str, Any]:
    first = trainers[0]
    parts = {name: first.rows[name] for name in ("validation", "test")}
    labels = {name: first.data.y[rows] for name, rows in parts.items()}
    logits = {name: _logits(trainers, first.data, rows, view) for name, rows in parts.items()}
    method = first.config.predict.calibration
    calibrator = None
    if method != "none":
        calibrator = _calibrator(method, logits["validation"], labels["validation"])
    answers = {name: Predictive.from_logits(logits[name], None, calibrator) for name in parts}
    raw = scores(Predictive.from_logits(logits["test"]), labels["test"], first.config)
    found: dict[str, Any] = {
        name: dict(scores(answers[name], labels[name], first.config)) for name in parts
    }
    if answers["test"].samples == 1:  # which has no mutual information but that of rounding
        for name in parts:
            found[name].pop("error_auroc_mutual_information", None)
    test = answers["test"].probabilities
    found["uncalibrated"] = {name: raw[name] for name in ("accuracy", "nll", "ece")}
    found["ece_floor"] = calibration_floor(
        test,
        answers["validation"].probabilities,
        bins=BINS,
        draws=FLOOR_DRAWS,
        seed=config.seed,
        by_entropy=method == EntropyTemperatureScaling.name,
    )._asdict()
    found["pavpu_curve"] = pavpu_curve(test, labels["test"], THRESHOLDS).pavpu.tolist()
    found["noise_auroc"] = _noise_auroc(trainers, config, view, calibrator)
    if config.nodes:
        found["outcomes"] = outcomes_of(test, labels["test"])
    if config.certainty:
        found["outcomes"] = found.get("outcomes", {}) | certainties_of(test)
    return found


def _calibrator(method: str, logits: Tensor, labels: Tensor) -> Calibrator:
    """As when the settings of the experiment were frozen: samples were never brought together."""
    if method == EntropyTemperatureScaling.name:
        return EntropyTemperatureScaling.fit(lambda: iter(logits), labels, spread=False)
    return calibrate(logits, labels, method)


def _logits(trainers: Sequence[Trainer], data: Data, rows: Tensor, view: View) -> Tensor:
    """Of every sample of every network, ``[samples, rows, classes]``."""
    logits = []
    for trainer in trainers:
        settings = resolve_settings(trainer.run.engine, view.samples, masks=view.masks)
        draws = make_draws(settings, PREDICTION_STEP)
        logits += list(trainer.run.engine.samples(settings.inputs(data), draws, rows))
    return torch.stack(logits)


def _noise_auroc(
    trainers: Sequence[Trainer], config: Controlled, view: View, calibrator: Calibrator | None
) -> dict[str, float]:
    """How well uncertainty finds the test nodes whose features are noise, by score."""
    first = trainers[0]
    noisy = feature_noise(first.data, NOISY, seed=config.seed, split=first.run.dataset.split)
    rows = first.rows["test"]
    answer = Predictive.from_logits(_logits(trainers, noisy.data, rows, view), None, calibrator)
    flags = noisy.ood_mask[rows]
    found = {"entropy": float(ood_auroc(answer.entropy, flags))}
    if answer.samples > 1:
        found["mutual_information"] = float(ood_auroc(answer.epistemic, flags))
    return found


# Outcomes at single nodes


def outcomes_of(probabilities: Tensor, labels: Tensor) -> dict[str, str]:
    """Which nodes are predicted correctly, a bit each, and the NLL of each in float16; base64."""
    right = (probabilities.argmax(1) == labels).numpy()
    likely = probabilities.double().gather(1, labels[:, None]).squeeze(1)
    nll = -likely.clamp_min(torch.finfo(torch.float32).tiny).log()
    return {
        "accuracy": _text(np.packbits(right)),
        "nll": _text(nll.numpy().astype("<f2")),
    }


def certainties_of(probabilities: Tensor) -> dict[str, str]:
    """One minus the confidence, whose small values float16 tells apart, and the entropy; base64."""
    doubt = 1.0 - probabilities.double().amax(1)
    entropy = predictive_entropy(probabilities.double())
    return {
        "doubt": _text(doubt.numpy().astype("<f2")),
        "entropy": _text(entropy.numpy().astype("<f2")),
    }


def outcome(record: Mapping[str, Any], score: str) -> NDArray[np.float64]:
    """One number for every test node of a record or of one of its views.

    Args:
        record: with `outcomes` and, of its run, `tested`.
        score: `accuracy`, which is 0 or 1, or `nll`; where they are kept, `doubt` or `entropy`.
    """
    stored = base64.b64decode(record["outcomes"][score])
    if score == "accuracy":
        bits = np.unpackbits(np.frombuffer(stored, dtype=np.uint8))
        return bits[: record["tested"]].astype(float)
    return np.frombuffer(stored, dtype="<f2").astype(float)


def _text(values: NDArray[Any]) -> str:
    return base64.b64encode(values.tobytes()).decode()
