"""Scores of classes, labels and numbers are those of scikit-learn, torch and scipy."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy, norm
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    f1_score,
    log_loss,
    r2_score,
    recall_score,
    root_mean_squared_error,
)

from graphdrop.metrics import brier_score, nll, predictive_entropy
from graphdrop.metrics.scoring import (
    accuracy,
    gaussian_nll,
    interval_coverage,
    interval_width,
    label_accuracy,
    label_nll,
    macro_f1,
    mean_error,
    micro_f1,
    per_class_recall,
    r_squared,
    root_mean_square_error,
)

LOGITS = 3 * torch.randn(300, 6, generator=torch.Generator().manual_seed(0)).double()
PROBABILITIES = LOGITS.softmax(-1)
LABELS = torch.arange(300) % 6


def test_nll_is_scikit_learns_log_loss_and_torchs_cross_entropy():
    found = nll(PROBABILITIES, LABELS).item()
    assert found == pytest.approx(log_loss(LABELS, PROBABILITIES.numpy()), rel=1e-12)
    assert found == pytest.approx(torch.nn.functional.cross_entropy(LOGITS, LABELS).item())


def test_brier_is_scikit_learns():
    theirs = brier_score_loss(LABELS, PROBABILITIES.numpy(), scale_by_half=False)
    assert brier_score(PROBABILITIES, LABELS).item() == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_underflowed_probability_costs_much_and_stays_finite(dtype):
    probabilities = torch.tensor([[1.0, 0.0]], dtype=dtype)
    found = nll(probabilities, torch.tensor([1])).item()
    assert found == pytest.approx(-math.log(torch.finfo(dtype).tiny))


def test_entropy_is_scipys_in_nats():
    probabilities = torch.randn(50, 7, generator=torch.Generator().manual_seed(0)).softmax(-1)
    expected = torch.from_numpy(entropy(probabilities.double().numpy(), axis=1))
    torch.testing.assert_close(predictive_entropy(probabilities), expected, atol=1e-6, rtol=0)


@given(st.integers(1, 200))
def test_no_rounding_lifts_a_uniform_guess_above_log_classes(classes):
    uniform = torch.full((1, classes), 1 / classes)
    assert predictive_entropy(uniform).item() <= math.log(classes)


TRUE = torch.tensor([0, 0, 1, 3, 3, 3, 1, 0])  # class 2 does not occur
ANSWERED = torch.tensor([0, 2, 1, 3, 0, 3, 3, 0])
PRESENT = [0, 1, 3]


def test_classes():
    assert accuracy(ANSWERED, TRUE) == accuracy_score(TRUE, ANSWERED)
    recall = recall_score(TRUE, ANSWERED, labels=PRESENT, average=None)
    assert per_class_recall(ANSWERED, TRUE).tolist() == pytest.approx(recall.tolist())
    f1 = f1_score(TRUE, ANSWERED, labels=PRESENT, average="macro")
    assert macro_f1(ANSWERED, TRUE) == pytest.approx(f1)


def test_labels():
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.rand(40, 3, generator=generator, dtype=torch.float64)
    truth = (torch.rand(40, 3, generator=generator) < 0.4).float()
    said = probabilities > 0.5
    exact = accuracy_score(truth.flatten(), said.flatten())
    assert label_accuracy(probabilities, truth) == pytest.approx(exact)
    assert micro_f1(probabilities, truth) == pytest.approx(f1_score(truth, said, average="micro"))
    assert label_nll(probabilities, truth) == pytest.approx(
        log_loss(truth.flatten(), probabilities.flatten())
    )
    certain = label_nll(torch.tensor([[0.0]]), torch.tensor([[1.0]]))
    assert 80 < certain < 100  # an underflow of the sigmoid stays finite


GENERATOR = torch.Generator().manual_seed(0)
TARGETS = torch.randn(50, 2, generator=GENERATOR).double()
MEAN = TARGETS + torch.randn(50, 2, generator=GENERATOR).double()
VARIANCE = 0.1 + torch.rand(50, 2, generator=GENERATOR).double()


def test_errors_of_the_mean():
    squares = root_mean_squared_error(TARGETS, MEAN, multioutput="raw_values") ** 2
    assert root_mean_square_error(MEAN, TARGETS) == pytest.approx(squares.mean() ** 0.5)
    assert r_squared(MEAN, TARGETS) == pytest.approx(r2_score(TARGETS, MEAN))
    assert r_squared(MEAN[:, :1], TARGETS[:, 0]) == pytest.approx(
        r2_score(TARGETS[:, 0], MEAN[:, 0])
    )
    assert r_squared(MEAN, torch.zeros(50, 2)) is None
    deviation = float(TARGETS[:, 0].std(correction=0))
    assert mean_error(TARGETS[:, 0], None) == pytest.approx(deviation)
    assert mean_error(TARGETS[:, 0], [5.0]) == pytest.approx(
        root_mean_square_error(torch.full((50, 1), 5.0), TARGETS[:, 0])
    )


def test_the_likelihood_and_the_intervals():
    expected = -norm(MEAN.numpy(), VARIANCE.sqrt().numpy()).logpdf(TARGETS.numpy())
    found = gaussian_nll(MEAN, VARIANCE.log(), TARGETS)
    assert found.flatten().tolist() == pytest.approx(expected.flatten().tolist(), rel=1e-6)
    low, high = torch.zeros(4, 1), torch.tensor([[1.0], [2.0], [1.0], [0.0]])
    truth = torch.tensor([0.5, 3.0, 1.0, 0.0])  # ends belong to an interval
    assert interval_coverage((low, high), truth) == 0.75
    assert interval_width((low, high)) == 1.0
