"""Detection scores by hand; rare classes are found within a budget and flagged by cost."""

import numpy as np
import pytest
import torch

from graphdrop.metrics import ood_aupr, ood_auroc, rare_classes, recall_at_budget
from graphdrop.metrics.ranking import budget_nodes, cost_threshold, rare_figures


def drawn(seed: int, ties: bool) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    positive = torch.rand(500, generator=generator) < 0.06
    scores = torch.rand(500, generator=generator) + 0.4 * positive
    return (scores * 8).round() / 8 if ties else scores, positive


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


def test_pairs_by_hand():
    # Outside 0.4 and 0.9 against inside 0.1, 0.4 and 0.6: wins 1 + 1/2 + 0 and 3, of 6 pairs.
    uncertainty = torch.tensor([0.4, 0.9, 0.1, 0.4, 0.6])
    outside = torch.tensor([True, True, False, False, False])
    assert ood_auroc(uncertainty, outside).item() == pytest.approx(4.5 / 6)
    # From the top: 0.9 at precision 1, then 0.4 reached together with two inside ones: 2 of 4.
    assert ood_aupr(uncertainty, outside).item() == pytest.approx((1 + 2 / 4) / 2)


def test_neither_depends_on_the_order_and_large_scores_keep_theirs():
    generator = torch.Generator().manual_seed(0)
    uncertainty = 100.0 + torch.randint(9, (60,), generator=generator).double()
    outside = torch.rand(60, generator=generator) < 0.3
    order = torch.randperm(60, generator=generator)
    for measure in (ood_auroc, ood_aupr):
        whole = measure(uncertainty, outside).item()
        assert measure(uncertainty[order], outside[order]).item() == pytest.approx(whole, abs=1e-12)
        assert measure(torch.arange(4) + 100.0, torch.tensor([0, 0, 1, 1])) == 1.0
    turned = ood_auroc(-uncertainty, outside).item()
    assert turned == pytest.approx(1 - ood_auroc(uncertainty, outside).item())


def test_a_constant_score_is_blind():
    outside = torch.tensor([True, False, False, False])
    assert ood_auroc(torch.ones(4), outside).item() == 0.5
    assert ood_aupr(torch.ones(4), outside).item() == 0.25


@pytest.mark.parametrize("uncertainty", [torch.ones(2, 2), torch.tensor(1.0), [0.1, 0.2]])
def test_anything_but_one_score_per_example_is_refused(uncertainty):
    with pytest.raises(ValueError, match=r"it takes one score per example \(n,\)"):
        ood_auroc(uncertainty, torch.tensor([True, False]))
