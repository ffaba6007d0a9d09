"""``trusted``: which answers to trust, by a threshold chosen on validation nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from graphdrop.inference.classes import Predictive
from graphdrop.inference.origin import SetNodes
from graphdrop.metrics.inputs import check_fraction, count_at_least

FROM_PROBABILITIES = ("least_confidence", "entropy")
"""Uncertainties that follow from the mean probabilities, which a model carries."""


class Trust(NamedTuple):
    """The answers to trust, and the rule that chose them."""

    trusted: Tensor
    """Whether to trust the answer of a row, bool ``[n]``."""
    by: str
    """The uncertainty that decides."""
    threshold: float
    """The largest uncertainty of a trusted answer."""
    coverage: float
    """The share of the nodes that chose the threshold which it keeps, as asked for."""
    chosen_on: str
    """``"validation"``, or ``"these"`` where no validation nodes are known."""
    accuracy: float | None
    """Of the kept validation nodes; ``None`` where none are known. They also selected the network,
    unless some were set aside, so that it is a little too high."""


def trusted(answer: Predictive, coverage: float = 0.9) -> Trust:
    """Which answers to trust: as certain as a share of the validation nodes.

    The uncertainty is the one that found errors best in training (``reject_by``), or the entropy.
    The threshold is what keeps ``coverage`` of the validation nodes that the model carries; the
    same rule holds for another graph, on which it may keep more or fewer. A model carries the mean
    probabilities of these nodes and not their samples: on another graph the entropy decides where
    the mutual information would.

    Args:
        answer: what ``predict`` returned.
        coverage: the share of the validation nodes to keep, above 0 and at most 1.

    Example:
        >>> answer = Predictive.from_logits(torch.tensor([[4.0, 0.0], [0.1, 0.0]]))
        >>> trusted(answer, 0.5).trusted.tolist()
        [True, False]
    """
    check_fraction(coverage, "coverage")
    by = answer.reject_by or "entropy"
    known = answer.origin.set_nodes
    if by not in FROM_PROBABILITIES and not answer.origin.same_graph:
        by = "entropy"
    if known is None:
        kept, threshold, by = answer.reject(coverage, by)
        return Trust(kept, by, threshold, coverage, "these", None)
    score, right = _validation(answer, known, by)
    order = score.argsort(stable=True)[: count_at_least(coverage, len(score))]
    threshold = float(score[order[-1]])
    accuracy = float(right[order].double().mean())
    uncertainty: Tensor = getattr(answer, by)
    # the carried probabilities have six digits
    kept = uncertainty.double() <= threshold + 1e-6
    return Trust(kept, by, threshold, coverage, "validation", accuracy)


def _validation(answer: Predictive, known: SetNodes, by: str) -> tuple[Tensor, Tensor]:
    """The uncertainty of the validation nodes, and whether their answers are right."""
    if by in FROM_PROBABILITIES:
        empty = torch.zeros(len(known.probabilities))
        shaped = torch.zeros_like(known.probabilities)
        then = Predictive(known.probabilities, shaped, empty, shaped, answer.samples)
        return getattr(then, by).double(), then.classes == known.labels
    rows = known.nodes
    if answer.origin.rows is not None:
        raise ValueError(
            f"by is {by!r} and only some rows are predicted; it takes all nodes of the training "
            "graph. Predict without rows."
        )
    score: Tensor = getattr(replace(answer, reject_by=None), by)
    return score[rows].double(), answer.predicted[rows] == known.labels
