"""``find_trusted``: which answers to trust, by a threshold chosen on validation nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from graphdrop.inference.classes import Predictive
from graphdrop.inference.gaussian import GaussianPredictive
from graphdrop.inference.sets import conformal_threshold
from graphdrop.metrics.inputs import check_fraction, count_at_least
from graphdrop.metrics.ranking import cost_threshold

FROM_PROBABILITIES = ("least_confidence", "entropy")
"""Uncertainties that follow from the mean probabilities, which a model carries."""


SCORE_TITLES = {
    "epistemic": "mutual information",
    "aleatoric": "expected entropy",
    "least_confidence": "probability of another class",
    "deviation": "standard deviation",
}
"""Uncertainties in the words of the report and of the command, where these differ."""


class RareLimit(NamedTuple):
    """From which probability of a rare class an answer of another class is not trusted."""

    label: int
    probability: float
    by: Literal["coverage", "cost", "share"]
    """What sets it: the coverage of the class's own validation nodes; the ratio of costs, where
    that is lower; or the class's share of the training nodes, where it has too few validation nodes
    for the coverage."""


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
    """The accuracy on the kept validation nodes; ``None`` where none are known. These nodes also
    selected the network, unless some were set aside, so that it is a little too high."""
    rare: tuple[RareLimit, ...] = ()
    """The limits of the rare classes; empty where no class is rare."""

    @property
    def title(self) -> str:
        """The uncertainty that decides, in words."""
        return SCORE_TITLES.get(self.by, self.by)


def find_trusted(answer: Predictive, coverage: float = 0.9, cost_ratio: float = 0.0) -> Trust:
    """Find the answers to trust: those that are as certain as a share of the validation nodes.

    The uncertainty is the one that found errors best in training (``reject_by``), or the entropy.
    The threshold is what keeps ``coverage`` of the validation nodes that the model carries; the
    same rule holds for another graph, on which it may keep more or fewer. A model carries the mean
    probabilities of these nodes and not their samples: on another graph the entropy decides where
    the mutual information would.

    Where a class is rare, most of its nodes are among the certain ones, as nodes of another class.
    An answer is therefore also not trusted where it names another class and the probability of the
    rare one reaches a limit, which a share ``coverage`` of the class's own validation nodes does:
    of the nodes of a rare class, at most about 10 % are trusted as something else.

    Args:
        answer: what ``predict`` returned.
        coverage: the share of the validation nodes to keep, above 0 and at most 1.
        cost_ratio: how many false alarms cost as much as one missed node of a rare class; lowers
            the limits to its threshold (``graphdrop.metrics.cost_threshold``). 0 for none.

    Example:
        >>> answer = Predictive.from_logits(torch.tensor([[4.0, 0.0], [0.1, 0.0]]))
        >>> find_trusted(answer, 0.5).trusted.tolist()
        [True, False]
    """
    check_fraction(coverage, "coverage")
    known, by = answer.origin.set_nodes, answer.reject_by or "entropy"
    if by not in FROM_PROBABILITIES and not answer.origin.same_graph:
        by = "entropy"
    limits = _find_rare_limits(answer, coverage, cost_ratio)
    safe = ~_find_reached(limits, answer.probabilities, answer.predicted)
    if known is None:
        kept, threshold, by = answer.reject(coverage, by)
        return Trust(kept & safe, by, threshold, coverage, "these", None, limits)
    uncertainty: Tensor = getattr(answer, by)
    if by in FROM_PROBABILITIES:
        zeros = torch.zeros_like(known.probabilities)
        validation = Predictive(known.probabilities, zeros, zeros[:, 0], zeros, answer.samples)
        score, predicted = getattr(validation, by).double(), validation.classes
    elif answer.origin.rows is None:
        score, predicted = uncertainty[known.nodes].double(), answer.predicted[known.nodes]
    else:
        raise ValueError(
            f"by is {by!r} and only some rows are predicted; it takes all nodes of the training "
            "graph. Predict without rows."
        )
    order = score.argsort(stable=True)[: count_at_least(coverage, len(score))]
    threshold = float(score[order[-1]])
    order = order[~_find_reached(limits, known.probabilities.to(order.device), predicted)[order]]
    accuracy = float((predicted == known.labels.to(order.device))[order].double().mean())
    # the carried probabilities have six digits
    kept = uncertainty.double() <= threshold + 1e-6
    return Trust(kept & safe, by, threshold, coverage, "validation", accuracy, limits)


def _find_rare_limits(
    answer: Predictive, coverage: float, cost_ratio: float
) -> tuple[RareLimit, ...]:
    """The limit of every rare class: what the threshold of its own set is, or less."""
    known, counts, found = answer.origin.set_nodes, answer.origin.class_counts, []
    for label in answer.rare_classes:
        limit = RareLimit(label, -math.inf, "coverage")
        if known is not None and coverage < 1:
            own = known.probabilities[known.labels == label, label].double()
            limit = limit._replace(probability=1.0 - conformal_threshold(1.0 - own, coverage))
        if limit.probability == -math.inf:
            limit = RareLimit(label, counts[label] / sum(counts), "share")
        if cost_ratio and (by_cost := cost_threshold(cost_ratio)) < limit.probability:
            limit = RareLimit(label, by_cost, "cost")
        found.append(limit)
    return tuple(found)


def _find_reached(
    limits: tuple[RareLimit, ...], probabilities: Tensor, predicted: Tensor
) -> Tensor:
    """Whether a rare class other than the predicted one reaches its limit, bool ``[n]``."""
    reached = torch.zeros_like(predicted, dtype=torch.bool)
    for limit in limits:
        likely = probabilities[:, limit.label].double() >= limit.probability - 1e-6
        reached |= likely & (predicted != limit.label)
    return reached


def find_trusted_numbers(
    answer: GaussianPredictive, quantiles: Sequence[float] | None, coverage: float = 0.9
) -> Trust:
    """Find the numbers to trust, by their predicted standard deviation.

    Args:
        answer: what ``predict(output="gaussian")`` returned.
        quantiles: ``deviation_quantiles`` of the model's defaults; ``None`` chooses the threshold
            on the nodes of the answer.
        coverage: the share of the validation nodes to keep, above 0 and at most 1.
    """
    check_fraction(coverage, "coverage")
    if quantiles is None:
        kept, threshold, _ = answer.reject(coverage)
        return Trust(kept, "deviation", threshold**0.5, coverage, "these", None)
    threshold = quantiles[math.ceil(round(coverage * (len(quantiles) - 1), 6))]
    kept = answer.doubt.double() <= threshold * (1.0 + 1e-6)
    return Trust(kept, "deviation", threshold, coverage, "validation", None)
