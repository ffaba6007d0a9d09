"""Metrics of numbers are those of scikit-learn and scipy, in one column or several."""

import pytest
import torch
from scipy.stats import norm
from sklearn.metrics import r2_score, root_mean_squared_error

from graphdrop.metrics.numbers import (
    gaussian_nll,
    interval_coverage,
    interval_width,
    mean_error,
    r_squared,
    root_mean_square_error,
)

GENERATOR = torch.Generator().manual_seed(0)
TRUTH = torch.randn(50, 2, generator=GENERATOR).double()
MEAN = TRUTH + torch.randn(50, 2, generator=GENERATOR).double()
VARIANCE = 0.1 + torch.rand(50, 2, generator=GENERATOR).double()


def test_errors_of_the_mean():
    squares = root_mean_squared_error(TRUTH, MEAN, multioutput="raw_values") ** 2
    assert root_mean_square_error(MEAN, TRUTH) == pytest.approx(squares.mean() ** 0.5)
    assert r_squared(MEAN, TRUTH) == pytest.approx(r2_score(TRUTH, MEAN))
    assert r_squared(MEAN[:, :1], TRUTH[:, 0]) == pytest.approx(r2_score(TRUTH[:, 0], MEAN[:, 0]))
    assert r_squared(MEAN, torch.zeros(50, 2)) is None
    assert mean_error(TRUTH[:, 0], None) == pytest.approx(float(TRUTH[:, 0].std(correction=0)))
    assert mean_error(TRUTH[:, 0], [5.0]) == pytest.approx(
        root_mean_square_error(torch.full((50, 1), 5.0), TRUTH[:, 0])
    )


def test_the_likelihood_and_the_intervals():
    expected = -norm(MEAN.numpy(), VARIANCE.sqrt().numpy()).logpdf(TRUTH.numpy())
    found = gaussian_nll(MEAN, VARIANCE.log(), TRUTH)
    assert found.flatten().tolist() == pytest.approx(expected.flatten().tolist(), rel=1e-6)
    low, high = torch.zeros(4, 1), torch.tensor([[1.0], [2.0], [1.0], [0.0]])
    truth = torch.tensor([0.5, 3.0, 1.0, 0.0])  # ends belong to an interval
    assert interval_coverage((low, high), truth) == 0.75
    assert interval_width((low, high)) == 1.0
