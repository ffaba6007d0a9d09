"""Accuracy on half of the validation nodes, after the evaluation that the other half chose."""

import itertools
import statistics

import pytest
import torch

from experiments.measures import accuracy_by_halves


def answers(*shares: float, nodes: int = 400, seed: int = 0) -> list[torch.Tensor]:
    """Of every evaluation which nodes are right, at random with these probabilities."""
    draws = torch.Generator().manual_seed(seed)
    return [torch.rand(nodes, generator=draws) < share for share in shares]


def test_the_one_that_is_best_on_every_half_is_scored_by_itself():
    right = answers(0.2, 0.9, 0.3)
    assert accuracy_by_halves(right) == pytest.approx(float(right[1].double().mean()))


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
