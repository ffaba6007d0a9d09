"""Rare classes are ranked, found within a budget and flagged by cost as scikit-learn counts it."""

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from graphdrop.metrics import average_precision, rare_classes, recall_at_budget
from graphdrop.metrics.rare import budget_nodes, cost_threshold, rare_figures


def drawn(seed: int, ties: bool) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    positive = torch.rand(500, generator=generator) < 0.06
    scores = torch.rand(500, generator=generator) + 0.4 * positive
    return (scores * 8).round() / 8 if ties else scores, positive


@pytest.mark.parametrize("ties", [False, True])
def test_average_precision_is_that_of_scikit_learn(ties):
    scores, positive = drawn(0, ties)
    expected = average_precision_score(positive.numpy(), scores.numpy())
    assert float(average_precision(scores, positive)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("ties", [False, True])
def test_recall_at_a_budget_is_the_mean_over_the_orders_of_equal_scores(ties):
    scores, positive = drawn(1, ties)
    random = np.random.default_rng(0)
    found = []
    for _ in range(2000 if ties else 1):
        order = np.lexsort((random.random(500), -scores.numpy()))
        found.append(positive.numpy()[order[:25]].sum() / positive.numpy().sum())
    noise = 4 * np.std(found) / len(found) ** 0.5
    for budget in ("5%", 0.05, 25, "25"):
        assert recall_at_budget(scores, positive, budget) == pytest.approx(
            np.mean(found), abs=noise + 1e-12
        )


def test_the_threshold_of_a_ratio_of_costs_has_the_least_cost_where_probabilities_are_true():
    chance = torch.rand(200_000, generator=torch.Generator().manual_seed(2)).double() ** 4
    positive = torch.rand(200_000, generator=torch.Generator().manual_seed(3)).double() < chance
    thresholds = np.array([0.25, 0.5, 1.0, 2.0, 4.0]) * cost_threshold(20)
    costs = [
        20 * int((positive & (chance < limit)).sum()) + int((~positive & (chance >= limit)).sum())
        for limit in thresholds
    ]
    assert int(np.argmin(costs)) == 2
    figures = rare_figures(chance, positive, "1%", cost_ratio=20)
    flagged = chance >= 1 / 21
    hits = int((flagged & positive).sum())
    assert figures.flagged_recall == hits / int(positive.sum())
    assert figures.flagged_precision == hits / int(flagged.sum())


def test_a_class_is_rare_below_a_tenth_and_below_half_an_equal_share():
    assert rare_classes([90, 10]) == ()
    assert rare_classes([91, 9]) == (1,)
    assert rare_classes([100] * 40) == ()
    assert rare_classes([100] * 39 + [40, 0]) == (39,)


@pytest.mark.parametrize("budget", ["0%", "101%", 0, -1, 1.5, "many", "0.0"])
def test_a_budget_that_is_none_is_refused(budget):
    with pytest.raises(ValueError, match="budget is"):
        budget_nodes(budget, 100)
