"""Conformal sets: the finite-sample quantile by hand, and coverage by simulation."""

import math
from itertools import pairwise

import pytest
import torch

from graphdrop.calibration import ConformalScore, SplitConformal


def _world(seed: int, examples: int):
    """Labels drawn from one distribution, and a model that reports another, over-confident one."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(examples, 6, generator=generator).double()
    labels = torch.multinomial((1.5 * logits).softmax(-1), 1, generator=generator)[:, 0]
    noise = torch.randn(examples, 6, generator=generator)
    return (3 * logits + noise).softmax(-1), labels


KINDS = {
    "lac": ("lac", False),
    "aps": ("aps", False),
    "aps randomised": ("aps", True),
}


@pytest.mark.parametrize(
    ("kind", "coverage"), [*((kind, 0.8) for kind in KINDS), ("aps randomised", 0.95)]
)
def test_coverage_over_many_splits_is_what_was_asked_for(kind, coverage):
    score, randomised = KINDS[kind]
    generator = torch.Generator().manual_seed(7) if randomised else None
    calibration, splits = 99, 400
    hits, sizes = [], []
    for seed in range(splits):
        probabilities, labels = _world(seed, calibration + 100)
        conformal = SplitConformal.fit(
            probabilities[:calibration], labels[:calibration], coverage, score, generator
        )
        sets = conformal.prediction_sets(probabilities[calibration:], generator)
        hits.append(sets.gather(1, labels[calibration:, None]).double().mean().item())
        sizes.append(sets.sum(1).double().mean().item())
    mean = sum(hits) / splits
    # Between splits the coverage is Beta(k, n + 1 - k), and within one binomial over 100 examples.
    spread = math.sqrt(coverage * (1 - coverage) * (1 / 100 + 1 / 100) / splits)
    # With n + 1 = 100 the coverage is exact where scores do not tie: neither below nor above.
    assert mean == pytest.approx(coverage, abs=4 * spread)
    assert sum(sizes) / splits < 6


def test_the_rank_counts_one_example_more_than_there_are():
    # 20 calibration examples at 0.9: k = ceil(21 * 0.9) = 19, where ceil(20 * 0.9) is 18.
    probabilities, labels = _world(0, 20)
    conformal = SplitConformal.fit(probabilities, labels, 0.9)
    scores = 1 - probabilities.gather(1, labels[:, None]).squeeze(1)
    assert conformal.threshold == scores.sort().values[18].item()


@pytest.mark.parametrize("score", ConformalScore)
def test_too_few_examples_give_sets_of_every_class(score):
    probabilities, labels = _world(0, 8)
    conformal = SplitConformal.fit(probabilities, labels, 0.9, score)
    assert conformal.threshold == math.inf
    assert conformal.prediction_sets(probabilities).all()


def test_lac_by_hand():
    probabilities = torch.tensor(
        [[0.75, 0.125, 0.125], [0.5, 0.25, 0.25], [0.625, 0.25, 0.125]], dtype=torch.float64
    )
    # Scores of the true classes: 0.25, 0.75, 0.375; k = ceil(4 * 0.5) = 2.
    conformal = SplitConformal.fit(probabilities, torch.tensor([0, 1, 0]), 0.5)
    assert conformal.threshold == 0.375
    assert conformal.prediction_sets(probabilities).tolist() == [
        [True, False, False],
        [False, False, False],
        [True, False, False],
    ]


def test_aps_by_hand():
    probabilities = torch.tensor([[0.25, 0.625, 0.125]] * 3, dtype=torch.float64)
    # Cumulative from the top: class 1 0.625, class 0 0.875, class 2 1.0; k = ceil(4 * 0.5) = 2.
    conformal = SplitConformal.fit(probabilities, torch.tensor([1, 0, 2]), 0.5, "aps")
    assert conformal.threshold == 0.875
    assert conformal.prediction_sets(probabilities).tolist() == [[True, True, False]] * 3


def test_randomised_aps_counts_a_uniform_part_of_the_class_itself():
    probabilities = torch.tensor([[0.25, 0.625, 0.125]] * 999, dtype=torch.float64)
    labels = torch.zeros(999, dtype=torch.long)
    generator = torch.Generator().manual_seed(0)
    conformal = SplitConformal.fit(probabilities, labels, 0.5, "aps", generator)
    # The scores of class 0 are uniform on (0.625, 0.875).
    assert conformal.threshold == pytest.approx(0.75, abs=0.02)
    sets = conformal.prediction_sets(probabilities, generator)
    assert sets[:, 1].all()
    assert not sets[:, 2].any()
    assert sets[:, 0].double().mean().item() == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("score", ConformalScore)
def test_more_coverage_never_removes_a_class(score):
    probabilities, labels = _world(1, 200)
    sets = [
        SplitConformal.fit(probabilities, labels, coverage, score).prediction_sets(probabilities)
        for coverage in (0.5, 0.8, 0.95)
    ]
    for smaller, larger in pairwise(sets):
        assert not (smaller & ~larger).any()
        assert (larger & ~smaller).any()


def test_aps_sets_hold_the_likeliest_classes():
    probabilities, labels = _world(2, 300)
    sets = SplitConformal.fit(probabilities, labels, 0.9, "aps").prediction_sets(probabilities)
    in_order = sets.gather(1, probabilities.argsort(-1, descending=True)).long()
    assert (in_order.diff(dim=1) <= 0).all()
    assert len(set(sets.sum(1).tolist())) > 1


def test_what_does_not_fit_together_is_refused():
    probabilities, labels = _world(0, 50)
    generator = torch.Generator()
    plain = SplitConformal.fit(probabilities, labels)
    randomised = SplitConformal.fit(probabilities, labels, score="aps", generator=generator)
    with pytest.raises(ValueError, match="without a generator: leave out"):
        plain.prediction_sets(probabilities, generator)
    with pytest.raises(ValueError, match="with a generator: pass"):
        randomised.prediction_sets(probabilities)
    with pytest.raises(ValueError, match="'lac' is not random"):
        SplitConformal.fit(probabilities, labels, generator=generator)
    with pytest.raises(ValueError, match="2 classes, but fit saw 6"):
        plain.prediction_sets(torch.full((1, 2), 0.5))
    with pytest.raises(ValueError, match="score is 'raps'; it takes one of 'lac', 'aps'"):
        SplitConformal.fit(probabilities, labels, score="raps")
    with pytest.raises(ValueError, match="at least one example"):
        SplitConformal.fit(torch.empty(0, 6), torch.empty(0, dtype=torch.long))
    for coverage in (0.0, 1.0, float("nan")):
        with pytest.raises(ValueError, match=r"coverage is .* between 0 and 1"):
            SplitConformal.fit(probabilities, labels, coverage)
