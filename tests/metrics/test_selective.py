"""Selective risk by hand, by brute force over all orders of ties, and at its limits."""

from itertools import pairwise, permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdrop.metrics import aurc, excess_aurc, risk_coverage_curve, selective_risk


def _examples(errors: list[int]):
    """Two classes, class 0 predicted; `errors` says which examples are wrong."""
    labels = torch.tensor(errors)
    return torch.tensor([[0.8, 0.2]] * len(errors)), labels


def _brute_force(uncertainty: list[float], errors: list[int]) -> list[float]:
    """The risk at each coverage, averaged over every order that respects the uncertainty."""
    n = len(errors)
    curves = []
    for order in permutations(range(n)):
        if all(uncertainty[a] <= uncertainty[b] for a, b in pairwise(order)):
            wrong = [errors[i] for i in order]
            curves.append([sum(wrong[:k]) / k for k in range(1, n + 1)])
    return [sum(column) / len(curves) for column in zip(*curves, strict=True)]


def test_four_examples_by_hand():
    probabilities, labels = _examples([0, 1, 0, 1])
    uncertainty = torch.tensor([0.1, 0.2, 0.3, 0.4])
    curve = risk_coverage_curve(probabilities, labels, uncertainty=uncertainty)
    assert curve.coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert curve.risk.tolist() == pytest.approx([0, 1 / 2, 1 / 3, 1 / 2])
    area = aurc(probabilities, labels, uncertainty=uncertainty).item()
    assert area == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    # The best order is right, right, wrong, wrong.
    excess = excess_aurc(probabilities, labels, uncertainty=uncertainty).item()
    assert excess == pytest.approx(area - (1 / 3 + 1 / 2) / 4)


@given(
    st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3]), st.integers(0, 1)), min_size=1, max_size=6)
)
@settings(max_examples=30, deadline=None)
def test_ties_count_as_the_mean_over_all_their_orders(pairs):
    uncertainty, errors = (list(column) for column in zip(*pairs, strict=True))
    probabilities, labels = _examples(errors)
    expected = _brute_force(uncertainty, errors)
    given_scores = torch.tensor(uncertainty)
    curve = risk_coverage_curve(probabilities, labels, uncertainty=given_scores)
    assert curve.risk.tolist() == pytest.approx(expected)
    area = aurc(probabilities, labels, uncertainty=given_scores).item()
    assert area == pytest.approx(sum(expected) / len(expected))


@given(seed=st.integers(0, 2**20), examples=st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_order_and_monotone_rescaling_change_nothing_and_bounds_hold(seed, examples):
    generator = torch.Generator().manual_seed(seed)
    probabilities = torch.randn(examples, 3, generator=generator).softmax(-1)
    labels = torch.randint(3, (examples,), generator=generator)
    scores = torch.randint(4, (examples,), generator=generator)
    order = torch.randperm(examples, generator=generator)
    for measure in (aurc, excess_aurc):
        plain = measure(probabilities, labels, uncertainty=scores)
        permuted = measure(probabilities[order], labels[order], uncertainty=scores[order])
        rescaled = measure(probabilities, labels, uncertainty=scores.double().exp())
        assert torch.equal(plain, permuted)
        assert torch.equal(plain, rescaled)
        assert 0 <= plain.item() <= 1
    risk = risk_coverage_curve(probabilities, labels, uncertainty=scores).risk
    error = (probabilities.argmax(-1) != labels).double().mean().item()
    assert risk[-1].item() == pytest.approx(error)
    assert selective_risk(probabilities, labels, 1.0).item() == pytest.approx(error)
    assert excess_aurc(probabilities, labels) <= aurc(probabilities, labels)
