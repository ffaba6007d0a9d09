"""BetaBernoulliRate: a posterior that draws, averages and costs what its parameters say."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from graphdrop.sampling.rates import BetaBernoulliRate, kumaraswamy

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


def test_the_largest_uniform_of_the_generator_is_one_in_float64() -> None:
    assert LARGEST == 1.0


def test_raw_parameters_start_where_the_authors_start_them() -> None:
    torch.manual_seed(0)
    rate = BetaBernoulliRate(entries=5000)
    for raw, low, high in ((rate.raw_a, 1.0, 1.5), (rate.raw_b, 0.49, 0.51)):
        start = (raw.detach().numpy() - low) / (high - low)
        assert scipy.stats.kstest(start, "uniform").pvalue > 1e-3
    assert rate.mean().mean().item() == pytest.approx(0.6, abs=0.02)


def test_the_seed_of_torch_decides_where_the_parameters_start() -> None:
    torch.manual_seed(3)
    first = BetaBernoulliRate(entries=4)
    torch.manual_seed(3)
    second = BetaBernoulliRate(entries=4)
    assert torch.equal(first.raw_a, second.raw_a)
    before = first.raw_a.clone()
    first.reset_parameters()
    assert not torch.equal(first.raw_a, before)


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


def test_a_larger_uniform_gives_the_smaller_keep_of_the_formula() -> None:
    rate = rate_at(2.0, 3.0)
    u = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    keep = (1 - u ** (1 / 3)) ** (1 / 2)
    torch.testing.assert_close(rate.sample(u), keep)
    torch.testing.assert_close(rate.logit(u), keep.logit())


def test_each_entry_of_a_local_rate_draws_at_its_own_uniform() -> None:
    rate = BetaBernoulliRate(entries=3).double()
    rate.a, rate.b = torch.tensor([[0.5, 1.0, 2.0], [3.0, 1.0, 0.2]], dtype=torch.float64)
    u = torch.rand(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    logits = rate.logit(u)
    assert logits.shape == (5, 3)
    alone = rate_at(2.0, 0.2).logit(u[:, 2])
    torch.testing.assert_close(logits[:, 2], alone)


def test_shapes_and_the_number_of_uniforms_follow_the_entries() -> None:
    shared, local = BetaBernoulliRate(), BetaBernoulliRate(entries=4)
    assert (shared.entries, shared.num_uniforms) == ((), 1)
    assert (local.entries, local.num_uniforms) == ((4,), 4)
    assert shared.logit(torch.tensor(0.5)).shape == ()
    assert shared.mean().shape == shared.kl().shape == local.kl().shape == ()
    assert local.mean().shape == local.sample(torch.rand(4)).shape == (4,)


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


def test_a_uniform_that_was_rounded_to_1_is_the_largest_float_below_it() -> None:
    rate = BetaBernoulliRate()
    for dtype in (torch.float32, torch.float64):
        one = torch.ones((), dtype=dtype)
        below = torch.nextafter(one, torch.zeros_like(one))
        assert torch.equal(rate.logit(one), rate.logit(below))
        assert bool(rate.logit(below) < rate.logit(1 - 4 * (1 - below)))


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


@pytest.mark.parametrize("prior_beta", [0.05, 1.0, 10.0])
def test_the_kl_of_a_float32_module_is_good_to_four_digits(prior_beta: float) -> None:
    for a, b in CORNERS.tolist():
        rounded = rate_at(a, b, prior_beta=prior_beta).float()
        exact = rate_at(a, b, prior_beta=prior_beta)
        kl, expected = rounded.kl(), exact.kl()
        assert kl.item() == pytest.approx(expected.item(), rel=1e-4, abs=1e-6)
        gradients = torch.autograd.grad(kl, list(rounded.parameters()))
        for got, wanted in zip(
            gradients, torch.autograd.grad(expected, list(exact.parameters())), strict=True
        ):
            assert got.item() == pytest.approx(wanted.item(), rel=1e-4, abs=1e-5), (a, b)


def test_kl_uses_the_prior_and_sums_over_entries() -> None:
    rate = BetaBernoulliRate(prior_alpha=0.3, prior_beta=2.0, entries=3).double()
    entries = kumaraswamy.kl_to_beta(rate.a, rate.b, 0.3, 2.0)
    torch.testing.assert_close(rate.kl(), entries[0] + entries[1] + entries[2])
    assert rate_at(0.8, 1.0).kl().item() == pytest.approx(0, abs=1e-12)


def test_mean_is_the_average_of_many_draws() -> None:
    rate = rate_at(1.5, 0.97)
    u = torch.rand(100_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    draws = rate.sample(u).detach()
    assert abs(draws.mean() - rate.mean()) < 4 * draws.std() / math.sqrt(len(draws))


def test_log_prob_is_the_logarithm_of_the_density() -> None:
    keep = np.linspace(0.01, 0.99, 9)
    got = rate_at(2.0, 3.0).log_prob(torch.from_numpy(keep)).detach()
    np.testing.assert_allclose(got.exp(), 6 * keep * (1 - keep**2) ** 2, rtol=1e-12)


@pytest.mark.parametrize("outside", [0.0, 1.0, -0.1, math.nan])
def test_log_prob_refuses_what_is_not_a_probability_inside(outside: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        BetaBernoulliRate().log_prob(torch.tensor([0.5, outside]))


def test_drawing_without_uniforms_says_what_to_pass() -> None:
    rate = BetaBernoulliRate(entries=3)
    with pytest.raises(ValueError, match=r"u is None.*floating-point.*mean\(\)"):
        rate.logit()
    with pytest.raises(ValueError, match=r"u is torch\.int64"):
        rate.sample(torch.ones(3, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"u has shape \(2,\).*\(\.\.\., 3\)"):
        rate.logit(torch.rand(2))


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_a_prior_parameter_must_be_positive(value: float) -> None:
    with pytest.raises(ValueError, match=r"prior_alpha is .* above 0"):
        BetaBernoulliRate(prior_alpha=value)
    with pytest.raises(ValueError, match=r"prior_beta is .* above 0"):
        BetaBernoulliRate(prior_beta=value)


def test_it_says_its_prior() -> None:
    assert repr(BetaBernoulliRate(0.4, 2.0)) == "BetaBernoulliRate(prior_alpha=0.4, prior_beta=2)"
    assert "entries=7" in repr(BetaBernoulliRate(entries=7))
