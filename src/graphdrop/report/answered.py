"""What refusal and prediction sets do on the test nodes: the figures of two sections."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch_geometric.data import Data

from graphdrop.report.collect import RunEvidence

SCORES = {
    "entropy": "entropy",
    "epistemic": "mutual information",
    "least_confidence": "probability of another class",
    "aleatoric": "expected entropy",
}
"""Uncertainties by which a run may refuse, in words."""


class Refusal(NamedTuple):
    """What a run's own rule of refusal does on the test nodes."""

    answered: int
    right: int
    """Of those answered."""
    refused: int
    refused_wrong: int
    """Of those refused."""


class SetFigures(NamedTuple):
    """How the sets of a run come out on the test nodes."""

    held: float
    """The share of nodes whose set holds the true class."""
    size: float
    """The mean number of classes."""
    sizes: list[float]
    """The share of nodes by the number of classes in their set, from none to all."""


class ClassFigures(NamedTuple):
    """The test nodes of one class."""

    nodes: int
    right: int
    held: int | None
    """How many sets hold the class; `None` for a run without sets."""


def refusal(run: RunEvidence, data: Data) -> Refusal:
    """Refusal by the threshold that a run carries."""
    test = data.test_mask
    right, kept = (run.decided == data.y)[test], run.trust.trusted[test]
    return Refusal(
        answered=int(kept.sum()),
        right=int((right & kept).sum()),
        refused=int((~kept).sum()),
        refused_wrong=int((~right & ~kept).sum()),
    )


def set_figures(run: RunEvidence, data: Data) -> SetFigures | None:
    """Coverage and size of the sets; `None` for a run without sets."""
    if run.sets is None:
        return None
    test, classes = data.test_mask, run.prediction.probabilities.shape[1]
    size = run.sets.size()[test]
    counts = size.bincount(minlength=classes + 1)
    return SetFigures(
        held=float(_held(run, data)[test].double().mean()),
        size=float(size.double().mean()),
        sizes=(counts.double() / len(size)).tolist(),
    )


def class_figures(run: RunEvidence, data: Data) -> list[ClassFigures]:
    """The test nodes, class by class."""
    test = data.test_mask
    labels, right = data.y[test], (run.decided == data.y)[test]
    held = None if run.sets is None else _held(run, data)[test]
    found = []
    for label in range(run.prediction.probabilities.shape[1]):
        own = labels == label
        covered = None if held is None else int(held[own].sum())
        found.append(ClassFigures(int(own.sum()), int(right[own].sum()), covered))
    return found


def _held(run: RunEvidence, data: Data) -> Tensor:
    """Whether the set of a node holds its label, `[nodes]`; false where there is no label."""
    if run.sets is None:
        raise ValueError(f"{run.folder} carries no calibration nodes: it has no sets")
    members = run.sets.members
    labels: Tensor = data.y
    return members.gather(1, labels.clamp_min(0)[:, None])[:, 0] & (labels >= 0)
