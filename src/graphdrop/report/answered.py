"""What refusal and prediction sets do on the test nodes: the figures of two sections."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.data.names import Names
from graphdrop.metrics import RareFigures
from graphdrop.report.collect import POINTS, RunEvidence, of_rows
from graphdrop.train.evaluation import rare_classes_found

FIRST = 20
"""So many nodes to look at first are listed for a rare class."""

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


class RareView(NamedTuple):
    """A rare class: how well it is found among the test nodes, and which nodes to look at first."""

    label: int
    figures: RareFigures
    recall: list[float]
    precision: list[float]
    """The precision at every recall; the curve has at most `POINTS` points."""
    first: list[tuple[str, float, int]]
    """Id, probability and label, -1 for none, of the nodes outside of training of the highest
    probability."""
    trusted: int
    """How many test nodes of the class are trusted as nodes of another one."""


def rare_views(run: RunEvidence, data: Data) -> list[RareView]:
    """The rare classes that some test node is of."""
    test, names, found = data.test_mask, Names.of(data), []
    by_label = rare_classes_found(of_rows(run.prediction, test), data.y[test], run.config)
    for label, figures in by_label.items():
        probability = run.prediction.probabilities[:, label]
        order = probability[test].argsort(descending=True, stable=True)
        hits = (data.y[test][order] == label).double().cumsum(0)
        at = torch.linspace(0, len(hits) - 1, min(POINTS, len(hits))).long()
        others = (~data.train_mask).nonzero().flatten()
        first = others[probability[others].argsort(descending=True, stable=True)][:FIRST]
        missed = test & (data.y == label) & run.trust.trusted & (run.decided != label)
        found.append(
            RareView(
                label=label,
                figures=figures,
                recall=(hits / hits[-1])[at].tolist(),
                precision=(hits[at] / (at + 1)).tolist(),
                first=[
                    (names.node(node), float(probability[node]), int(data.y[node]))
                    for node in first.tolist()
                ],
                trusted=int(missed.sum()),
            )
        )
    return found


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
