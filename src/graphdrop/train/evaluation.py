"""Predict as a run's settings say, and score the prediction on the nodes of one part of a split."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphdrop.config import Config
from graphdrop.inference import Predictive, predict
from graphdrop.metrics import calibration_error, nll, pavpu
from graphdrop.rates.ordered import ordered_sum
from graphdrop.train.objective import layers_of


@dataclass(frozen=True)
class Scores:
    """How good a prediction is on some nodes."""

    accuracy: float
    """Of the decision that the settings name: the vote or the mean."""
    accuracy_vote: float
    accuracy_mean: float
    nll: float
    ece: float
    pavpu: float


def predictive(
    model: nn.Module,
    data: Data,
    config: Config,
    *,
    rows: Tensor | None = None,
    samples: int | None = None,
) -> Predictive:
    """The predictive distribution of some nodes, or of all, as `config.predict` has it."""
    settings = config.predict
    monte_carlo = settings.masks in ("relaxed", "hard")
    count = samples or settings.samples
    with _keeping(model, everything=settings.masks == "off", features=not settings.dropout):
        return predict(
            model,
            data,
            count if monte_carlo else 0,
            config.seed,
            temperature=config.model.temperature if settings.masks == "relaxed" else None,
            rows=rows,
        )


@contextmanager
def _keeping(model: nn.Module, *, everything: bool, features: bool) -> Iterator[None]:
    """Within it no layer samples anything, or none that has masks drops features beside them."""
    layers = layers_of(model) if everything or features else []
    parts = [(layer, layer.sampler, layer.dropout) for layer in layers]
    for layer, sampler, _ in parts:
        if everything:
            layer.sampler = None
        if everything or sampler is not None:
            layer.dropout = None
    try:
        yield
    finally:
        for layer, sampler, dropout in parts:
            layer.sampler, layer.dropout = sampler, dropout


@torch.no_grad()
def drop_rates(model: nn.Module) -> list[float | None]:
    """The expected drop rate of each layer, or None: of its sampler, else of its DropOut."""
    samplers = [layer.sampler or layer.dropout for layer in layers_of(model)]
    keeps = [None if sampler is None else sampler.rate.mean().flatten() for sampler in samplers]
    return [None if keep is None else 1.0 - float(ordered_sum(keep) / len(keep)) for keep in keeps]


def decided(prediction: Predictive, config: Config) -> Tensor:
    """The predicted class of every node, by vote or by mean."""
    return prediction.vote if config.predict.decision == "vote" else prediction.classes


def accuracy(predicted: Tensor, labels: Tensor) -> float:
    """The fraction of nodes whose class is right."""
    return int((predicted == labels).sum()) / len(labels)


def score(prediction: Predictive, labels: Tensor, config: Config) -> Scores:
    """All figures of a prediction; `labels` are those of its nodes, in its order."""
    settings = config.predict
    chosen = decided(prediction, config)
    certain = pavpu(
        prediction.probabilities,
        labels,
        settings.pavpu_threshold,
        axis=settings.pavpu_axis,
        predictions=chosen,
    )
    return Scores(
        accuracy=accuracy(chosen, labels),
        accuracy_vote=accuracy(prediction.vote, labels),
        accuracy_mean=accuracy(prediction.classes, labels),
        nll=float(nll(prediction.probabilities, labels)),
        ece=float(calibration_error(prediction.probabilities, labels)),
        pavpu=float(certain.pavpu),
    )
