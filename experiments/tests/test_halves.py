"""Accuracy on half of the validation nodes, after the evaluation that the other half chose."""

import itertools
import statistics

import pytest
import torch

from experiments.measures import accuracy_by_halves, random_halves


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


@pytest.mark.parametrize(
    ("nodes", "seed"), [(2, 0), (2, 1), (7, 0), (7, 1), (7, 2), (8, 0), (8, 3)]
)
def test_it_is_the_mean_over_the_halvings_both_ways(nodes, seed):
    right = answers(0.6, 0.65, 0.55, nodes=nodes, seed=seed)
    table = torch.stack(right).double()
    firsts = list(itertools.combinations(range(nodes), nodes // 2))[: 2 * nodes]
    scores = []
    for half in firsts:
        other = [node for node in range(nodes) if node not in half]
        for chosen_by, scored_on in ((list(half), other), (other, list(half))):
            best = int(table[:, chosen_by].mean(1).argmax())
            scores.append(float(table[best, scored_on].mean()))
    masks = torch.zeros(len(firsts), nodes, dtype=torch.bool)
    for mask, half in zip(masks, firsts, strict=True):
        mask[list(half)] = True
    assert accuracy_by_halves(right, masks) == pytest.approx(statistics.fmean(scores))


@pytest.mark.parametrize("nodes", [2, 7, 500])
def test_random_halves_are_halves_and_every_node_is_in_some_of_both(nodes):
    first = random_halves(nodes)
    assert (first.sum(1) == nodes // 2).all()
    assert first.any(0).all()
    assert not first.all(0).any()
    assert torch.equal(first, random_halves(nodes))


def test_one_node_has_no_halves():
    with pytest.raises(ValueError, match="no halves"):
        accuracy_by_halves([torch.tensor([True])])
