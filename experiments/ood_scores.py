"""``reproduce ood --recipe auto``: every score of every method, all with the same settings.

A run leaves one class out and trains several networks that differ in the seed alone. Each is scored
by itself; those with DropOut also with masks off, and these as an ensemble. The same networks are
then shown known test nodes of which half have perturbed features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field
from torch import Tensor
from torch_geometric.data import Data

from experiments.left_out_class import LeftOut, uncertainties
from experiments.perturbed_features import feature_noise, shifted_columns
from graphdrop.data import Dataset
from graphdrop.inference import Predictive
from graphdrop.inference.energies import EnergyScale, energy
from graphdrop.inference.predictive import PREDICTION_STEP, make_draws, resolve_settings
from graphdrop.metrics import ood_auroc

if TYPE_CHECKING:
    from graphdrop.nn.defaults import Masks
    from graphdrop.train import Trainer

ENSEMBLE = "ensemble"
CLASS, NOISE, SHIFT = "class", "noise", "shift"


class Unfamiliar(LeftOut):
    """All settings of such a run."""

    perturbed: Annotated[float, Field(gt=0, lt=1)]
    """The share of the known test nodes whose features are perturbed afterwards."""


@torch.no_grad()
def unfamiliar_scores(
    trainers: Sequence[Trainer], known: Dataset, outside: Tensor, config: Unfamiliar
) -> dict[str, Any]:
    """AUROC by case, by view and by score, one value for every network.

    Args:
        trainers: one for every seed, trained.
        known: the graph without labels of the class.
        outside: the test nodes of the class, ``[n]``.
        config: the settings of the run.
    """
    tested = known.split.test
    found: dict[str, Any] = {}
    for case, data, flags in _cases(known, outside, config):
        rows = tested | outside if case == CLASS else tested
        views = _views(trainers, data)
        found[case] = {
            view: _by_score(answers, rows, flags[rows]) for view, answers in views.items()
        }
        if case == CLASS:
            labels = known.data.y[tested]
            accuracy = {
                view: [
                    float((answer.classes[tested] == labels).double().mean()) for answer in answers
                ]
                for view, answers in views.items()
            }
    return {"unfamiliar": found, "known_accuracy": accuracy, "unknown": int(outside.sum())}


def _cases(
    known: Dataset, outside: Tensor, config: Unfamiliar
) -> Iterator[tuple[str, Data, Tensor]]:
    """The name of a case, the graph, and which nodes are out of distribution."""
    yield CLASS, known.data, outside
    share, seed = config.perturbed, config.seed
    noisy = feature_noise(known.data, share, seed=seed, split=known.split)
    yield NOISE, noisy.data, noisy.ood_mask
    shifted = shifted_columns(known.data, share, seed, known.split)
    yield SHIFT, shifted.data, shifted.ood_mask


def _views(trainers: Sequence[Trainer], data: Data) -> dict[str, list[Predictive]]:
    """The predictions of all nodes by every network, in each way that it can predict."""
    views = {"sampled": [_answer(data, _logits(one, data)) for one in trainers]}
    if trainers[0].config.model.method == "GCN-DO":
        off = [_logits(one, data, "off") for one in trainers]
        views["off"] = [_answer(data, logits) for logits in off]
        views[ENSEMBLE] = [_answer(data, torch.cat(off))]
    return views


def _logits(trainer: Trainer, data: Data, masks: Masks | None = None) -> Tensor:
    """Of every sample and node, ``[samples, n, classes]``."""
    settings = resolve_settings(trainer.run.engine, masks=masks)
    draws = make_draws(settings, PREDICTION_STEP)
    return torch.stack(list(trainer.run.engine.samples(settings.inputs(data), draws, None)))


def _answer(data: Data, logits: Tensor) -> Predictive:
    return Predictive.from_logits(logits, data)


def _by_score(answers: Sequence[Predictive], rows: Tensor, flags: Tensor) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for answer in answers:
        for name, score in every_score(answer):
            found.setdefault(name, []).append(float(ood_auroc(score[rows], flags)))
    return found


def every_score(answer: Predictive) -> Iterator[tuple[str, Tensor]]:
    """Every score of a prediction of all nodes, higher where it is less familiar."""
    yield from uncertainties(answer)
    yield "vacuity", answer.vacuity
    for scale in EnergyScale:
        yield f"energy_{scale.value}", energy(answer, scale=scale)
