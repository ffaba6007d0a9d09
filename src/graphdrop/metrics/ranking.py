"""How well scores rank: uncertainties of nodes out of distribution, probabilities of rare classes.

Of a class with few nodes the predicted class says little, since it is seldom the likeliest one.
What counts is the order of its probabilities, and where to draw a line in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from graphdrop.metrics.inputs import check_flags, check_scores, count_at_least

SHARE = 0.1
"""A class with a smaller share of the labelled nodes is rare ..."""
PART = 0.5
"""... if that is also less than this part of the share that it had if all classes were equal."""


def rare_classes(counts: Sequence[int]) -> tuple[int, ...]:
    """The classes with less than 10 % of the nodes, and less than half of an equal share.

    Args:
        counts: the number of labelled training nodes of every class; a class without one is none
            that could be learned, and is left out.

    Example:
        >>> rare_classes([2880, 120]), rare_classes([140] * 7)
        ((1,), ())
    """
    total = sum(counts)
    most = min(SHARE, PART / max(1, len(counts))) * total
    return tuple(label for label, count in enumerate(counts) if 0 < count < most)


def ood_auroc(uncertainty: Tensor, out_of_distribution: Tensor) -> Tensor:
    """AUROC of out-of-distribution detection by uncertainty; ties count half.

    0.5 is random and 1 is perfect.

    Args:
        uncertainty: one score per example `(n,)`, higher for more uncertain.
        out_of_distribution: boolean `(n,)`, with at least one of each.

    Example:
        >>> ood_auroc(torch.tensor([0.1, 0.9]), torch.tensor([False, True])).item()
        1.0
    """
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415 - takes a second

    scores, flags = _check_pair(uncertainty, out_of_distribution, _OF_NODES)
    return torch.tensor(roc_auc_score(flags, scores), dtype=torch.float64)


def ood_aupr(uncertainty: Tensor, out_of_distribution: Tensor) -> Tensor:
    """`average_precision` with out-of-distribution as the positive class.

    A blind score gets the share of out-of-distribution examples. The arguments are those of
    `ood_auroc`; negate both for the in-distribution examples as the positive class.
    """
    return average_precision(*_check_pair(uncertainty, out_of_distribution, _OF_NODES))


def average_precision(scores: Tensor, positive: Tensor) -> Tensor:
    """The mean precision over the recalls that the scores reach; chance gives the positives' share.

    `sum_k (recall_k - recall_{k-1}) precision_k` over the distinct scores from the highest down.

    Args:
        scores: `(n,)`, higher for more likely positive.
        positive: boolean `(n,)`, with at least one of each.

    Example:
        >>> average_precision(torch.tensor([0.9, 0.8]), torch.tensor([False, True])).item()
        0.5
    """
    from sklearn.metrics import average_precision_score  # noqa: PLC0415 - takes a second

    scores, flags = _check_pair(scores, positive, ("scores", "positive"))
    return torch.tensor(average_precision_score(flags, scores), dtype=torch.float64)


_OF_NODES = ("uncertainty", "out_of_distribution")


def _check_pair(scores: Tensor, flags: Tensor, names: tuple[str, str]) -> tuple[Tensor, Tensor]:
    """Scores in float64 and boolean flags `(n,)` on the CPU, with at least one of each kind."""
    if not isinstance(scores, Tensor) or scores.ndim != 1:
        shape = tuple(getattr(scores, "shape", ()))
        raise ValueError(f"{names[0]} has shape {shape}; it takes one score per example (n,)")
    scores = check_scores(scores, len(scores), names[0])
    flags = check_flags(flags, len(scores), names[1])
    if not 0 < int(flags.sum()) < len(scores):
        raise ValueError(
            f"{names[1]} marks {int(flags.sum())} of {len(scores)} examples, but it needs at "
            "least one of each kind: pass the examples of both kinds together"
        )
    return scores.detach().cpu(), flags.cpu()


def budget_nodes(budget: str | float, total: int) -> int:
    """How many of so many nodes a budget allows to look at, at least one.

    Args:
        budget: a share, such as `"1%"` or 0.01, or a whole number of nodes, such as `"50"` or 50.
        total: the number of nodes.

    Example:
        >>> budget_nodes("1%", 2000), budget_nodes(50, 2000)
        (20, 50)
    """
    text = str(budget).replace(" ", "")
    if re.fullmatch(r"\d+(\.\d+)?%", text) and 0 < (share := float(text[:-1]) / 100) <= 1:
        return count_at_least(share, total)
    if re.fullmatch(r"\d+", text) and (count := int(text)) >= 1:
        return min(count, total)
    if re.fullmatch(r"0\.\d+", text) and (share := float(text)) > 0:
        return count_at_least(share, total)
    raise ValueError(
        f"budget is {budget!r}; it takes a share of the nodes such as 1%, or a number of nodes "
        "such as 50"
    )


def recall_at_budget(scores: Tensor, positive: Tensor, budget: str | float) -> float:
    """The share of the positives among the nodes of highest score that a budget allows.

    Of nodes with the same score at the border, the expected number counts.

    Args:
        scores: `(n,)`, higher for more likely positive.
        positive: boolean `(n,)`, with at least one positive.
        budget: a share or a number of nodes, as in `budget_nodes`.

    Example:
        >>> recall_at_budget(torch.tensor([0.9, 0.8, 0.1]), torch.tensor([True, False, True]), 1)
        0.5
    """
    scores = check_scores(scores, len(scores), "scores")
    positive = check_flags(positive, len(scores), "positive")
    if not bool(positive.any()):
        raise ValueError("positive marks no node: recall takes at least one")
    count = budget_nodes(budget, len(scores))
    border = scores.topk(count).values[-1]
    above, level = scores > border, scores == border
    part = (count - int(above.sum())) / int(level.sum())
    found = float((positive & above).sum()) + part * float((positive & level).sum())
    return found / float(positive.sum())


def cost_threshold(cost_ratio: float) -> float:
    """The probability from which it is cheaper to look at a node than to leave it out.

    Args:
        cost_ratio: how many false alarms cost as much as one missed node.

    Example:
        >>> round(cost_threshold(19), 6)
        0.05
    """
    if not 0 < cost_ratio < math.inf:
        raise ValueError(
            f"cost_ratio is {cost_ratio}; it takes a number above 0: how many false alarms cost as "
            "much as one missed node"
        )
    return 1 / (1 + cost_ratio)


class RareFigures(NamedTuple):
    """How well a rare class is found among some nodes; without a node of it there are none."""

    nodes: int
    """The nodes of the class, of `of` nodes in all."""
    of: int
    average_precision: float
    """Chance gives `nodes / of`."""
    budget: int
    """How many nodes are looked at, those of the highest probability first."""
    recall: float
    """The share of the class that these hold."""
    precision: float
    """The share of these that are of the class."""
    threshold: float | None = None
    """The probability that the ratio of costs asks for; `None` where there is none."""
    flagged: int | None = None
    """How many nodes reach it."""
    flagged_recall: float | None = None
    flagged_precision: float | None = None
    """`None` where no node reaches the threshold."""


def rare_figures(
    probabilities: Tensor, positive: Tensor, budget: str | float = "1%", cost_ratio: float = 0.0
) -> RareFigures | None:
    """Average precision, recall at a budget and the figures at the threshold of a ratio of costs.

    Args:
        probabilities: of the rare class, `(n,)`.
        positive: whether a node is of that class, boolean `(n,)`.
        budget: a share or a number of nodes, as in `budget_nodes`.
        cost_ratio: how many false alarms cost as much as one missed node; 0 for no threshold.
    """
    of, nodes = len(positive), int(positive.sum())
    if nodes in (0, of):
        return None
    looked = budget_nodes(budget, of)
    recall = recall_at_budget(probabilities, positive, budget)
    figures = RareFigures(
        nodes=nodes,
        of=of,
        average_precision=float(average_precision(probabilities, positive)),
        budget=looked,
        recall=recall,
        precision=recall * nodes / looked,
    )
    if not cost_ratio:
        return figures
    threshold = cost_threshold(cost_ratio)
    flagged = probabilities >= threshold
    count, hits = int(flagged.sum()), int((flagged & positive).sum())
    return figures._replace(
        threshold=threshold,
        flagged=count,
        flagged_recall=hits / nodes,
        flagged_precision=hits / count if count else None,
    )
