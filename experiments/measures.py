"""The scores and curves that a record of a run contains."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphdrop import metrics
from graphdrop.config import Config
from graphdrop.inference import Predictive, predict
from graphdrop.metrics import ThresholdAxis, registry
from graphdrop.train import Trainer

DIGITS = 5
BINS = 15
COVERAGES = 100
HALVINGS = 50
BY_HALVES = "accuracy_by_halves"
"""The key of `accuracy_by_halves` in records."""
AXES = (ThresholdAxis.LARGEST, ThresholdAxis.LOG_CLASSES, ThresholdAxis.RANGE)
_MONTE_CARLO = ("relaxed", "hard")


def measures(trainer: Trainer) -> dict[str, Any]:
    """Scores of the selected network on every part of the split, and its curves on the test nodes.

    A network that predicts without sampling although it could sample, such as one with DropOut, is
    also scored as it predicts with Monte Carlo samples (`sampled`); the curves are then of these.
    """
    config = trainer.config
    found: dict[str, Any] = part_scores(trainer, config, "train", "validation", "test")
    if config.predict.masks not in _MONTE_CARLO and _can_sample(trainer):
        config = sampling(config)
        found["sampled"] = part_scores(trainer, config, "validation", "test")
    return found | {"curves": curves(_predicted(trainer, config, "test"), trainer)}


def part_scores(trainer: Trainer, config: Config, *parts: str) -> dict[str, Any]:
    """Scores on some parts of the split, by part."""
    return {
        part: scores(_predicted(trainer, config, part), _labels(trainer, part), config)
        for part in parts
    }


def accuracy_by_halves(right: Sequence[Tensor], first: Tensor | None = None) -> float:
    """Accuracy on half of the nodes, after the evaluation at which the other half was best.

    The best accuracy of many evaluations is biased upwards, most for runs with a large variance.
    Here the evaluation is selected on one half of the nodes and scored on the other half, averaged
    over random halvings, both ways.

    Args:
        right: for every evaluation, which nodes were predicted correctly, ``[nodes]`` bool.
        first: the first half of every halving, ``[halvings, nodes]``; `random_halves` unless given.
    """
    answers = torch.stack(list(right)).double()
    first = random_halves(answers.shape[1]) if first is None else first
    chosen_by = torch.cat([first, ~first]).double()
    best = (answers @ chosen_by.T / chosen_by.sum(1)).argmax(0)
    scored_on = 1.0 - chosen_by
    return float(((answers[best] * scored_on).sum(1) / scored_on.sum(1)).mean())


def random_halves(nodes: int) -> Tensor:
    """Which nodes are in the first half, of halvings that are the same in every run."""
    if nodes < 2:
        raise ValueError(f"{nodes} validation node has no halves: give a split with more")
    draws = torch.Generator().manual_seed(0)
    order = torch.stack([torch.randperm(nodes, generator=draws) for _ in range(HALVINGS)])
    first = torch.zeros(HALVINGS, nodes, dtype=torch.bool)
    return first.scatter_(1, order[:, : nodes // 2], value=True)


def sampling(config: Config) -> Config:
    """The same settings, but predicting with Monte Carlo samples through hard masks."""
    predict = config.predict.model_copy(update={"masks": "hard"})
    return config.model_copy(update={"predict": predict})


def _can_sample(trainer: Trainer) -> bool:
    return any(rate is not None for rate in trainer.run.engine.drop_rates().values())


def _labels(trainer: Trainer, part: str) -> Tensor:
    labels: Tensor = trainer.data.y[trainer.rows[part]]
    return labels


def _predicted(trainer: Trainer, config: Config, part: str) -> Predictive:
    return predict(trainer.model, trainer.data, masks=config.predict.masks, rows=trainer.rows[part])


def scores(prediction: Predictive, labels: Tensor, config: Config) -> dict[str, float]:
    """Every metric of one prediction by its name."""
    return registry.score(prediction, labels, config)


def curves(prediction: Predictive, trainer: Trainer) -> dict[str, Any]:
    """PAvPU over thresholds 0, 0.05, ... 1 on every axis, reliability bins, risk by coverage."""
    labels, probabilities = _labels(trainer, "test"), prediction.probabilities
    chosen = prediction.predicted
    bins = metrics.reliability(probabilities, labels, bins=BINS)
    risk = metrics.risk_coverage_curve(probabilities, labels, predictions=chosen).risk
    kept = [math.ceil(len(risk) * (k + 1) / COVERAGES) - 1 for k in range(COVERAGES)]
    return {
        "pavpu": {
            axis.value: metrics.pavpu_curve(
                probabilities, labels, axis=axis, predictions=chosen
            ).pavpu.tolist()
            for axis in AXES
        },
        "reliability": {
            "confidence": bins.confidence.tolist(),
            "accuracy": bins.accuracy.tolist(),
            "examples": bins.examples.tolist(),
        },
        "risk": risk[kept].tolist(),
    }


def compact(value: Any) -> Any:
    """The value with rounded numbers, and None for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {name: compact(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [compact(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


def thinned(count: int, wanted: int) -> list[int]:
    """At most `wanted` of the positions 0..count-1, evenly spread, both ends among them."""
    return sorted({int(k) for k in np.linspace(0, count - 1, min(count, wanted)).round()})
