"""LearnedRate: a logit as parameter, and an entropy that pulls it to one half."""

import math

import numpy as np
import pytest
import torch

from graphdrop.sampling.rates import LearnedRate


def test_it_starts_at_the_initial_keep_and_returns_there_on_reset() -> None:
    rate = LearnedRate(0.9, entries=3)
    torch.testing.assert_close(rate.mean(), torch.full((3,), 0.9))
    with torch.no_grad():
        rate.keep_logit.fill_(-5.0)
    rate.reset_parameters()
    torch.testing.assert_close(rate.sample(), torch.full((3,), 0.9))


@pytest.mark.parametrize(
    ("logit", "dtype"),
    [
        *((logit, torch.float64) for logit in (-800.0, -30.0, -1.0, 0.0, 0.5, 30.0, 800.0)),
        *((logit, torch.float32) for logit in (-800.0, 0.5, 30.0)),
    ],
)
def test_kl_is_minus_the_weighted_entropy(logit: float, dtype: torch.dtype) -> None:
    rate = LearnedRate(entropy_weight=2.0).to(dtype)
    with torch.no_grad():
        rate.keep_logit.fill_(logit)
    rarer = 1 / (1 + math.exp(abs(logit))) if abs(logit) < 700 else 0.0
    entropy = rarer * abs(logit) - math.log1p(-rarer)  # log(rarer) = -|logit| + log(1 - rarer)
    kl = rate.kl()
    (by_logit,) = torch.autograd.grad(kl, rate.keep_logit)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    assert kl.item() == pytest.approx(-2 * entropy, rel=tolerance, abs=1e-30)
    # dH/d logit = -logit keep (1 - keep)
    gradient = 2 * logit * rarer * (1 - rarer)
    assert by_logit.item() == pytest.approx(gradient, rel=tolerance, abs=1e-30)


def test_kl_sums_over_entries_and_is_zero_without_a_weight() -> None:
    local = LearnedRate(entropy_weight=1.0, entries=4).double()
    assert local.kl().item() == pytest.approx(-4 * np.log(2))
    assert LearnedRate(entropy_weight=0.0).kl().item() == 0


@pytest.mark.parametrize("keep", [0.0, 1.0, -0.2, math.nan])
def test_an_initial_keep_without_a_finite_logit_is_refused(keep: float) -> None:
    with pytest.raises(ValueError, match=r"initial_keep is .*both excluded.*FixedRate"):
        LearnedRate(keep)


@pytest.mark.parametrize("weight", [-1.0, math.inf, math.nan])
def test_a_negative_or_infinite_entropy_weight_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match=r"entropy_weight is .*0 or more"):
        LearnedRate(entropy_weight=weight)
