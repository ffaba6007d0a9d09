"""The scoring rules against scikit-learn, torch and numbers worked out by hand."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.preprocessing import label_binarize

from graphdrop.metrics import brier_score, nll, predictive_entropy

LOGITS = 3 * torch.randn(300, 6, generator=torch.Generator().manual_seed(0)).double()
PROBABILITIES = LOGITS.softmax(-1)
LABELS = torch.arange(300) % 6


def test_two_examples_by_hand():
    probabilities = torch.tensor([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]])
    labels = torch.tensor([0, 2])
    assert brier_score(probabilities, labels).item() == (0.25 + 2 / 16 + 2) / 2
    assert nll(probabilities[:1], labels[:1]).item() == pytest.approx(math.log(2))


def test_nll_is_scikit_learns_log_loss_and_torchs_cross_entropy():
    found = nll(PROBABILITIES, LABELS).item()
    assert found == pytest.approx(log_loss(LABELS, PROBABILITIES.numpy()), rel=1e-12)
    assert found == pytest.approx(torch.nn.functional.cross_entropy(LOGITS, LABELS).item())


def test_brier_is_scikit_learns_and_the_mean_squared_distance_to_the_one_hot_label():
    one_hot = label_binarize(LABELS, classes=range(6))
    expected = ((PROBABILITIES.numpy() - one_hot) ** 2).sum(1).mean()
    found = brier_score(PROBABILITIES, LABELS).item()
    assert found == pytest.approx(expected, rel=1e-12)
    theirs = brier_score_loss(LABELS, PROBABILITIES.numpy(), scale_by_half=False)
    assert found == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_underflowed_probability_costs_much_and_stays_finite(dtype):
    probabilities = torch.tensor([[1.0, 0.0]], dtype=dtype)
    found = nll(probabilities, torch.tensor([1])).item()
    assert found == pytest.approx(-math.log(torch.finfo(dtype).tiny))


@given(st.integers(0, 2**20))
@settings(max_examples=30, deadline=None)
def test_no_other_report_scores_better_on_average_than_the_truth(seed):
    generator = torch.Generator().manual_seed(seed)
    truth, other = torch.randn(2, 4, generator=generator).double().softmax(-1)
    # The expectation over labels drawn from the truth, exactly.
    for score in (brier_score, nll):
        honest, dishonest = (
            sum(truth[c] * score(report[None], torch.tensor([c])) for c in range(4)).item()
            for report in (truth, other)
        )
        assert honest <= dishonest + 1e-12


@given(st.integers(0, 2**20), st.integers(1, 30))
@settings(max_examples=30, deadline=None)
def test_brier_lies_between_zero_and_two_and_neither_sees_the_order(seed, examples):
    generator = torch.Generator().manual_seed(seed)
    probabilities = (5 * torch.randn(examples, 3, generator=generator)).softmax(-1)
    labels = torch.randint(3, (examples,), generator=generator)
    order = torch.randperm(examples, generator=generator)
    assert 0 <= brier_score(probabilities, labels).item() <= 2
    for score in (brier_score, nll):
        permuted = score(probabilities[order], labels[order])
        torch.testing.assert_close(permuted, score(probabilities, labels))


def test_entropy_is_scipys_in_nats():
    probabilities = torch.randn(50, 7, generator=torch.Generator().manual_seed(0)).softmax(-1)
    expected = torch.from_numpy(entropy(probabilities.double().numpy(), axis=1))
    torch.testing.assert_close(predictive_entropy(probabilities), expected, atol=1e-6, rtol=0)


def test_certainty_has_entropy_zero_and_a_coin_log_two():
    result = predictive_entropy(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    assert result.tolist() == [0.0, math.log(2)]


@given(st.integers(1, 200))
def test_no_rounding_lifts_a_uniform_guess_above_log_classes(classes):
    uniform = torch.full((1, classes), 1 / classes)
    assert predictive_entropy(uniform).item() <= math.log(classes)


def test_samples_that_disagree_are_averaged_before_the_entropy():
    samples = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])
    assert predictive_entropy(samples).item() == math.log(2)
