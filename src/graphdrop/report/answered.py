"""What the page shows of answers: refusal, sets, mistakes, curves, and nodes to look at first."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import zip_longest
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data
from torchmetrics.functional.classification import binary_precision_recall_curve, binary_roc

from graphdrop.data.names import Names
from graphdrop.metrics import average_precision, ood_auroc
from graphdrop.metrics.ranking import RareFigures
from graphdrop.metrics.registry import find_rare_classes
from graphdrop.report.collect import POINTS, RunEvidence, select_rows

FIRST = 20
"""So many nodes to look at first are listed for a rare class."""
FOR_A_REASON = 8
"""So many nodes to look at first are listed for each reason."""
MOST_CLASSES = 20
"""Of more classes the page lists the most frequent mistakes, in place of a confusion matrix."""


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
    counts: list[int]
    """The number of nodes by the number of classes in their set, from 1 to all."""


class RareView(NamedTuple):
    """A rare class: how well it is found among the test nodes, and which nodes to look at first."""

    label: int
    figures: RareFigures
    first: list[tuple[str, float, int]]
    """Id, probability and label, -1 for none, of the nodes outside of training of the highest
    probability."""
    trusted: int
    """How many test nodes of the class are trusted as nodes of another one."""


def look_first(run: RunEvidence, data: Data) -> list[dict[str, Any]]:
    """Nodes worth a look: trusted answers that are wrong, likely rare ones, and uncertain ones.

    Nodes that are likely of a rare class are chosen among those without a label; uncertain ones too
    where there are any, since their answers are needed, and otherwise outside of training.
    """
    names, labels = Names.of(data), data.y
    probabilities = run.prediction.probabilities
    likely, order = probabilities.topk(2)
    own = probabilities.gather(1, run.decided[:, None])[:, 0]
    known = labels >= 0
    some_unknown = not bool(known.all())
    reasons: list[list[tuple[int, str]]] = []

    def add(score: Tensor, among: Tensor, why: Callable[[int], str]) -> None:
        rows = among.nonzero().flatten()
        first = rows[score[rows].argsort(descending=True, stable=True)][:FOR_A_REASON]
        reasons.append([(node, why(node)) for node in first.tolist()])

    def mistaken(node: int) -> str:
        label = int(labels[node])
        kind = "training label" if bool(data.train_mask[node]) else "label"
        return (
            f"Trusted, but its {kind} is {names.label(label)} (probability "
            f"{float(probabilities[node, label]):.3f})."
        )

    def unsure(node: int) -> str:
        other = int(order[node, 1] if order[node, 0] == run.decided[node] else order[node, 0])
        return (
            f"Uncertain: the next class is {names.label(other)} (probability "
            f"{float(probabilities[node, other]):.3f})."
        )

    add(own, known & (run.decided != labels) & run.trust.trusted, mistaken)
    if some_unknown:
        for label in run.prediction.rare_classes:
            of_class = probabilities[:, label]
            name = names.label(label)
            add(
                of_class,
                ~known,
                lambda node, p=of_class, name=name: (  # type: ignore[misc]
                    f"No label; likely of the rare class {name} (probability {float(p[node]):.3f})."
                ),
            )
    add(-(likely[:, 0] - likely[:, 1]), ~known if some_unknown else ~data.train_mask, unsure)
    found: dict[int, str] = {}
    for in_turn in zip_longest(*reasons):  # the first of every reason, then the second
        for node, why in filter(None, in_turn):
            found.setdefault(node, why)
    return [
        {
            "node": names.node(node),
            "predicted": int(run.decided[node]),
            "probability": float(own[node]),
            "why": why,
        }
        for node, why in found.items()
    ]


def ranking_views(run: RunEvidence, data: Data) -> list[dict[str, Any]]:
    """How well the probability of a class ranks the test nodes, in curves of `POINTS` points.

    These are the rare classes, or the less frequent one of two classes.
    """
    labels, probabilities = data.y[data.test_mask], run.prediction.probabilities[data.test_mask]
    shown = list(run.prediction.rare_classes)
    if not shown and probabilities.shape[1] == 2:
        known = data.y[data.train_mask]
        shown = [0 if (known == 0).sum() < (known == 1).sum() else 1]
    found = []
    for label in shown:
        positive, scores = labels == label, probabilities[:, label].double()
        if not bool(positive.any()) or bool(positive.all()):
            continue
        precision, recall, _ = binary_precision_recall_curve(scores, positive.long())
        false_positives, true_positives, _ = binary_roc(scores, positive.long())
        # From the highest threshold on, without the point that stands for no node at all.
        recall, precision = recall[:-1].flip(0), precision[:-1].flip(0)
        found.append(
            {
                "label": label,
                "nodes": int(positive.sum()),
                "average_precision": float(average_precision(scores, positive)),
                "auroc": float(ood_auroc(scores, positive)),
                "recall": _thin(recall),
                "precision": _thin(precision),
                "false_positives": _thin(false_positives),
                "true_positives": _thin(true_positives),
            }
        )
    return found


def _thin(values: Tensor) -> list[float]:
    """At most `POINTS` of the values, half of them close to the first, where curves bend."""
    last, half = len(values) - 1, POINTS // 2
    if last < POINTS:
        at = torch.arange(last + 1)
    else:
        close = torch.logspace(0, math.log10(last), half).long()
        at = torch.cat([torch.linspace(0, last, half).long(), close]).unique()  # type: ignore[no-untyped-call]
    thin: list[float] = values[at].tolist()
    return thin


def confusion(run: RunEvidence, data: Data) -> list[list[int]] | None:
    """The number of test nodes by label and predicted class; `None` of more than 20 classes."""
    classes = run.prediction.probabilities.shape[1]
    if classes > MOST_CLASSES:
        return None
    found = [[0] * classes for _ in range(classes)]
    for label, predicted, count in _count_pairs_of_classes(run, data).tolist():
        found[label][predicted] = count
    return found


def mistakes(run: RunEvidence, data: Data) -> list[dict[str, int]]:
    """The most frequent mistakes on the test nodes, at most `MOST_CLASSES` of them."""
    pairs = _count_pairs_of_classes(run, data)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    most = pairs[pairs[:, 2].argsort(descending=True, stable=True)][:MOST_CLASSES]
    keys = ("label", "predicted", "nodes")
    return [dict(zip(keys, pair, strict=True)) for pair in most.tolist()]


def _count_pairs_of_classes(run: RunEvidence, data: Data) -> Tensor:
    """Label, predicted class and number of test nodes of every pair that occurs, `[pairs, 3]`."""
    tested = data.test_mask & (data.y >= 0)
    labels, predicted = data.y[tested], run.decided[tested]
    both = torch.stack([labels, predicted], 1)
    pairs, counts = both.unique(dim=0, return_counts=True)  # type: ignore[no-untyped-call]
    return torch.cat([pairs, counts[:, None]], 1)


def rare_views(run: RunEvidence, data: Data) -> list[RareView]:
    """The rare classes that some test node is of."""
    test, names, found = data.test_mask, Names.of(data), []
    by_label = find_rare_classes(select_rows(run.prediction, test), data.y[test], run.config)
    for label, figures in by_label.items():
        probability = run.prediction.probabilities[:, label]
        others = (~data.train_mask).nonzero().flatten()
        first = others[probability[others].argsort(descending=True, stable=True)][:FIRST]
        missed = test & (data.y == label) & run.trust.trusted & (run.decided != label)
        found.append(
            RareView(
                label=label,
                figures=figures,
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
    counts = size.bincount(minlength=classes + 1)[1:]
    return SetFigures(
        held=float(_find_held(run, data)[test].double().mean()),
        size=float(size.double().mean()),
        counts=counts.tolist(),
    )


def class_figures(run: RunEvidence, data: Data) -> list[dict[str, int | None]]:
    """The test nodes of each class: how many there are, are right, and are held by their set."""
    test = data.test_mask
    labels, right = data.y[test], (run.decided == data.y)[test]
    held = None if run.sets is None else _find_held(run, data)[test]
    found = []
    for label in range(run.prediction.probabilities.shape[1]):
        own = labels == label
        covered = None if held is None else int(held[own].sum())
        found.append({"nodes": int(own.sum()), "right": int(right[own].sum()), "held": covered})
    return found


def _find_held(run: RunEvidence, data: Data) -> Tensor:
    """Whether the set of a node holds its label, `[nodes]`; false where there is no label."""
    if run.sets is None:
        raise ValueError(f"{run.folder} carries no calibration nodes: it has no sets")
    members = run.sets.members
    labels: Tensor = data.y
    return members.gather(1, labels.clamp_min(0)[:, None])[:, 0] & (labels >= 0)
