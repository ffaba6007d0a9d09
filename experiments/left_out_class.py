"""Runs with one class left out of training, for out-of-distribution detection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from experiments.measures import scores
from graphdrop.config import Config
from graphdrop.data import Dataset
from graphdrop.data.ood import leave_class_out
from graphdrop.inference import Predictive
from graphdrop.metrics import ood_aupr, ood_auroc
from graphdrop.train import Trainer

MEMBER_STRIDE = 10_000
"""The distance between the seeds of an ensemble's members."""


class LeftOut(Config):
    """All settings of such a run; of an ensemble if it has several members."""

    left_out: Annotated[int, Field(ge=0)]
    """The class that neither training nor validation sees."""
    members: Annotated[int, Field(ge=1)] = 1
    """Networks whose probabilities are averaged."""

    def member_configs(self) -> list[LeftOut]:
        """The settings of every member, which differ in the seed alone."""
        return [
            self.model_copy(update={"seed": self.seed + MEMBER_STRIDE * member, "members": 1})
            for member in range(self.members)
        ]


def without_class(dataset: Dataset, left_out: int) -> tuple[Dataset, Tensor]:
    """The same graph without labels of a class, and the test nodes that have it, `[n]`.

    They leave the test nodes too: what is scored there is the known classes.
    """
    changed = leave_class_out(dataset.data, left_out, dataset.split)
    split = replace(changed.split, test=changed.in_distribution_mask)
    known = replace(dataset, data=changed.data, split=split, num_classes=len(changed.classes))
    return known, changed.ood_mask


def detection(trainers: Sequence[Trainer], config: LeftOut, outside: Tensor) -> dict[str, Any]:
    """Scores of the ensemble: accuracy on known classes and out-of-distribution detection.

    Args:
        trainers: one for each member, trained.
        config: the settings of the run.
        outside: the test nodes of the class that was left out, `[n]`.
    """
    first = trainers[0]
    found: dict[str, Any] = {
        part: scores(_together(trainers, first.rows[part]), first.data.y[first.rows[part]], config)
        for part in ("validation", "test")
    }
    unknown = outside.nonzero().flatten()
    rows = torch.cat([first.rows["test"], unknown])
    flags = torch.arange(len(rows)) >= len(rows) - len(unknown)
    prediction = _together(trainers, rows)
    found["detection"] = {
        name: {
            "auroc": float(ood_auroc(uncertainty, flags)),
            "aupr": float(ood_aupr(uncertainty, flags)),
        }
        for name, uncertainty in uncertainties(prediction)
    }
    return found | {"unknown": len(unknown)}


def uncertainties(prediction: Predictive) -> Iterator[tuple[str, Tensor]]:
    """The measures of uncertainty of a prediction by name; one pass alone has no information."""
    yield "max_probability", 1.0 - prediction.probabilities.amax(1)
    yield "entropy", prediction.entropy
    if prediction.samples > 1:
        yield "mutual_information", prediction.epistemic


def _together(trainers: Sequence[Trainer], rows: Tensor) -> Predictive:
    return averaged([trainer.predict(rows) for trainer in trainers])


def averaged(members: Sequence[Predictive]) -> Predictive:
    """A deep ensemble: members weigh the same, and disagree as samples of one network do."""
    if len(members) == 1:
        return members[0]
    probabilities = torch.stack([member.probabilities for member in members])
    return Predictive(
        probabilities.mean(0),
        torch.stack([member.votes for member in members]).sum(0),
        torch.stack([member.expected_entropy for member in members]).mean(0),
        probabilities.std(0),
        sum(member.samples for member in members),
        decision=members[0].decision,
    )
