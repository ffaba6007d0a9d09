"""Accuracy on half of the validation nodes, after the evaluation that the other half chose."""

import itertools
import statistics

import pytest
import torch

from graphdrop.experiments.measures import accuracy_by_halves


def answers(*shares: float, nodes: int = 400, seed: int = 0) -> list[torch.Tensor]:
    """Of every evaluation which nodes are right, at random with these probabilities."""
    draws = torch.Generator().manual_seed(seed)
    return [torch.rand(nodes, generator=draws) < share for share in shares]


def test_one_evaluation_has_its_own_accuracy():
    right = answers(0.7)
    assert accuracy_by_halves(right) == pytest.approx(float(right[0].double().mean()))


def test_the_one_that_is_best_on_every_half_is_scored_by_itself():
    right = answers(0.2, 0.9, 0.3)
    assert accuracy_by_halves(right) == pytest.approx(float(right[1].double().mean()))


def test_luck_among_many_evaluations_does_not_count():
    best, halves = [], []
    for seed in range(30):
        right = answers(*[0.7] * 100, seed=seed)
        best.append(max(float(one.double().mean()) for one in right))
        halves.append(accuracy_by_halves(right))
    assert statistics.fmean(best) > 0.75
    assert statistics.fmean(halves) == pytest.approx(0.7, abs=0.02)


def test_over_random_halves_it_comes_near_the_mean_over_all_halves():
    right = answers(0.6, 0.65, 0.55, nodes=8, seed=4)
    table = torch.stack(right).double()
    scores = []
    for half in itertools.combinations(range(8), 4):
        other = [node for node in range(8) if node not in half]
        best = int(table[:, list(half)].mean(1).argmax())
        scores.append(float(table[best, other].mean()))
    # 50 halves both ways, of which every one has this deviation.
    margin = 5 * statistics.pstdev(scores) / 50**0.5
    assert accuracy_by_halves(right) == pytest.approx(statistics.fmean(scores), abs=margin)


def test_an_odd_number_of_nodes_counts_every_node():
    # A halving scores 1/2 and 1 where a right node stands alone, 1 and 0 where the wrong one does.
    right = [torch.tensor([True, False, True])]
    assert accuracy_by_halves(right) == pytest.approx((2 * 0.75 + 0.5) / 3, abs=0.06)
