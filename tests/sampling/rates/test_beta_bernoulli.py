"""BetaBernoulliRate: a posterior that draws, averages and costs what its parameters say."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from graphdrop.sampling.rates import BetaBernoulliRate

CORNERS = torch.cartesian_prod(*[torch.logspace(-3, 3, 7, dtype=torch.float64)] * 2)
# What (k + 1/2) / 2^53 rounds to in float64 at its ends, the largest `k` giving exactly 1.
SMALLEST, LARGEST = 0.5 / 2**53, (2**53 - 0.5) / 2**53


def rate_at(a: float, b: float, prior_beta: float = 1.0) -> BetaBernoulliRate:
    rate = BetaBernoulliRate(prior_beta=prior_beta).double()
    rate.a, rate.b = a, b
    return rate


def rate_at_all_corners(dtype: torch.dtype, prior_beta: float = 1.0) -> BetaBernoulliRate:
    rate = BetaBernoulliRate(prior_beta=prior_beta, entries=len(CORNERS)).to(dtype)
    rate.a, rate.b = CORNERS.T
    return rate


def test_raw_parameters_start_where_the_authors_start_them() -> None:
    torch.manual_seed(0)
    rate = BetaBernoulliRate(entries=5000)
    for raw, low, high in ((rate.raw_a, 1.0, 1.5), (rate.raw_b, 0.49, 0.51)):
        start = (raw.detach().numpy() - low) / (high - low)
        assert scipy.stats.kstest(start, "uniform").pvalue > 1e-3
    assert rate.mean().mean().item() == pytest.approx(0.6, abs=0.02)


def test_setting_a_and_b_sets_the_raw_parameters_in_place() -> None:
    rate = BetaBernoulliRate(entries=3).double()
    parameters = list(rate.parameters())
    rate.a = 2.0
    rate.b = torch.tensor([1e-3, 1.0, 1e3])
    torch.testing.assert_close(rate.a, torch.full((3,), 2.0, dtype=torch.float64))
    torch.testing.assert_close(rate.b, torch.tensor([1e-3, 1.0, 1e3]).double())
    assert all(new is old for new, old in zip(rate.parameters(), parameters, strict=True))
    assert all(parameter.requires_grad for parameter in rate.parameters())


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan, torch.ones(2)])
def test_setting_a_to_what_it_cannot_be_says_what_it_can(value: float) -> None:
    rate = BetaBernoulliRate(entries=3)
    with pytest.raises(ValueError, match=r"a is .* above 0.*one per entry in shape \(3,\)"):
        rate.a = value


def test_each_entry_of_a_local_rate_draws_at_its_own_uniform() -> None:
    rate = BetaBernoulliRate(entries=3).double()
    rate.a, rate.b = torch.tensor([[0.5, 1.0, 2.0], [3.0, 1.0, 0.2]], dtype=torch.float64)
    u = torch.rand(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    logits = rate.logit(u)
    assert logits.shape == (5, 3)
    alone = rate_at(2.0, 0.2).logit(u[:, 2])
    torch.testing.assert_close(logits[:, 2], alone)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("u_dtype", [torch.float32, torch.float64])
def test_draws_are_finite_in_every_corner_and_have_the_dtype_of_the_module(
    dtype: torch.dtype, u_dtype: torch.dtype
) -> None:
    rate = rate_at_all_corners(dtype)
    u = torch.tensor([SMALLEST, 1e-9, 0.4, 1 - 1e-6, LARGEST], dtype=u_dtype)[:, None]
    for draw in (rate.logit, rate.sample):
        values = draw(u)
        gradients = torch.autograd.grad(values.sum(), list(rate.parameters()))
        assert values.dtype == dtype
        assert values.isfinite().all()
        assert all(gradient.isfinite().all() for gradient in gradients)


def test_a_float32_module_draws_the_logits_of_a_float64_one() -> None:
    exact, rounded = rate_at_all_corners(torch.float64), rate_at_all_corners(torch.float32)
    u = torch.tensor([SMALLEST, 0.4, LARGEST], dtype=torch.float64)[:, None]
    # The parameters differ by a rounding; where the logit crosses 0 that is an absolute error.
    torch.testing.assert_close(rounded.logit(u).double(), exact.logit(u), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("prior_beta", [0.05, 1.0, 10.0])
def test_mean_and_kl_are_finite_in_every_corner(dtype: torch.dtype, prior_beta: float) -> None:
    rate = rate_at_all_corners(dtype, prior_beta=prior_beta)
    for value in (rate.mean(), rate.kl()):
        gradients = torch.autograd.grad(value.sum(), list(rate.parameters()))
        assert value.dtype == dtype
        assert value.isfinite().all()
        assert all(gradient.isfinite().all() for gradient in gradients)


def test_mean_is_the_average_of_many_draws() -> None:
    rate = rate_at(1.5, 0.97)
    u = torch.rand(100_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    draws = rate.sample(u).detach()
    assert abs(draws.mean() - rate.mean()) < 4 * draws.std() / math.sqrt(len(draws))


def test_log_prob_is_the_logarithm_of_the_density() -> None:
    keep = np.linspace(0.01, 0.99, 9)
    got = rate_at(2.0, 3.0).log_prob(torch.from_numpy(keep)).detach()
    np.testing.assert_allclose(got.exp(), 6 * keep * (1 - keep**2) ** 2, rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_a_prior_parameter_must_be_positive(value: float) -> None:
    with pytest.raises(ValueError, match=r"prior_alpha is .* above 0"):
        BetaBernoulliRate(prior_alpha=value)
    with pytest.raises(ValueError, match=r"prior_beta is .* above 0"):
        BetaBernoulliRate(prior_beta=value)
