"""Draws, mean and density of the Kumaraswamy distribution agree with exact arithmetic."""

import itertools
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from torch import Tensor

from graphdrop.sampling.rates import kumaraswamy

PARAMETERS = (1e-3, 0.02, 0.5, 1.0, 3.0, 40.0, 1e3)
# The smallest and largest that (k + 1/2) / 2^53 gives, and some between.
UNIFORMS = (0.5 / 2**53, 1e-9, 1e-3, 0.3, 0.9, 1 - 1e-6, 1 - 2.0**-53)
GRID = list(itertools.product(UNIFORMS, PARAMETERS, PARAMETERS))


def exact_draw(u: float, a: mpmath.mpf, b: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf]:
    """`log pi` and `log(1 - pi)` of the draw at `u`, straight from the definition."""
    log_keep = mpmath.log1p(-mpmath.exp(mpmath.log(mpmath.mpf(u)) / b)) / a
    return log_keep, mpmath.log(-mpmath.expm1(log_keep))


def exact_logit(u: float, a: mpmath.mpf, b: mpmath.mpf) -> mpmath.mpf:
    log_keep, log_drop = exact_draw(u, a, b)
    return log_keep - log_drop


def columns(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """`log u`, `a` and `b` of every point of the grid; `a` and `b` want a gradient."""
    u, a, b = (torch.tensor(column, dtype=torch.float64) for column in zip(*GRID, strict=True))
    return u.log().to(dtype), a.to(dtype).requires_grad_(), b.to(dtype).requires_grad_()


def test_draws_equal_exact_arithmetic_in_every_corner() -> None:
    log_u, a, b = columns()
    with mpmath.workdps(60):
        exact = [exact_draw(u, mpmath.mpf(a), mpmath.mpf(b)) for u, a, b in GRID]
    log_keep = np.array([float(keep) for keep, _ in exact])
    log_drop = np.array([float(drop) for _, drop in exact])
    logit = np.array([float(keep - drop) for keep, drop in exact])
    np.testing.assert_allclose(
        kumaraswamy.log_keep(log_u, a, b).detach(), log_keep, rtol=1e-11, atol=1e-300
    )
    np.testing.assert_allclose(
        kumaraswamy.log_drop(log_u, a, b).detach(), log_drop, rtol=1e-11, atol=1e-15
    )
    np.testing.assert_allclose(
        kumaraswamy.logit(log_u, a, b).detach(), logit, rtol=1e-11, atol=1e-11
    )


def test_gradient_of_the_logit_equals_exact_differences_in_every_corner() -> None:
    log_u, a, b = columns()
    gradients = torch.autograd.grad(kumaraswamy.logit(log_u, a, b).sum(), (a, b))
    with mpmath.workdps(60):
        step = mpmath.mpf(10) ** -20
        for point, *got in zip(GRID, *gradients, strict=True):
            u, at_a, at_b = point[0], mpmath.mpf(point[1]), mpmath.mpf(point[2])
            above, below = 1 + step, 1 - step
            exact_a = exact_logit(u, at_a * above, at_b) - exact_logit(u, at_a * below, at_b)
            exact_b = exact_logit(u, at_a, at_b * above) - exact_logit(u, at_a, at_b * below)
            expected = [float(exact_a / (2 * step * at_a)), float(exact_b / (2 * step * at_b))]
            assert [float(g) for g in got] == pytest.approx(expected, rel=1e-9), point


def test_draws_stay_exact_across_the_switch_between_branches() -> None:
    # At a = b = 1 the draw is pi = 1 - u; the switches are at u = exp(-9) and u = exp(-36), and the
    # two sides are hardest to compute right there.
    one = torch.ones((), dtype=torch.float64, requires_grad=True)
    near = torch.linspace(-1e-3, 1e-3, 41, dtype=torch.float64)
    for log_u in (-9 + near, -36 + near):
        u = log_u.exp()
        logit = kumaraswamy.logit(log_u, one, one)
        torch.testing.assert_close(logit, (-u).log1p() - log_u, rtol=1e-12, atol=0)
        # d logit / d log u = -1/(1 - u) and, as t = -log(u)/b, d logit / d b = log(u)/(1 - u).
        (slope,) = torch.autograd.grad(logit.sum(), one)
        by_a = torch.autograd.grad(kumaraswamy.logit(log_u, one, one.detach()).sum(), one)[0]
        torch.testing.assert_close(slope - by_a, (log_u / (1 - u)).sum(), rtol=1e-11, atol=0)


def test_mean_equals_the_formula() -> None:
    a, b = torch.tensor(list(itertools.product(PARAMETERS, PARAMETERS)), dtype=torch.float64).T
    expected = b.numpy() * np.exp(scipy.special.betaln(1 + 1 / a.numpy(), b.numpy()))
    np.testing.assert_allclose(kumaraswamy.mean(a, b), expected, rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize(
    ("a", "b"), [(0.3, 30.0), (0.3, 0.3), (1.0, 1.0), (30.0, 2.5), (30.0, 30.0)]
)
def test_density_integrates_to_one_and_the_draws_follow_it(a: float, b: float) -> None:
    at = (torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64))
    # In the logit x the density is q(pi) pi (1 - pi), smooth and falling off at both ends.
    x = torch.linspace(-90, 34, 20_001, dtype=torch.float64)
    keep = x.sigmoid()
    density = (kumaraswamy.log_prob(keep, *at) + x.neg().sigmoid().log()).exp() * keep
    cumulative = torch.cumulative_trapezoid(density, x)
    assert cumulative[-1].item() == pytest.approx(1, abs=2e-4)

    u = torch.rand(20_000, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    draws = kumaraswamy.logit(u.log(), *at).numpy()
    test = scipy.stats.kstest(draws, lambda at_x: np.interp(at_x, x[1:], cumulative))
    assert test.pvalue > 1e-3


@pytest.mark.parametrize("function", [kumaraswamy.mean, kumaraswamy.log_prob])
def test_gradients_of_mean_and_density_equal_finite_differences(
    function: Callable[..., Tensor],
) -> None:
    a = torch.tensor([0.05, 0.7, 3.0, 50.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([0.3, 20.0, 1.0, 0.04], dtype=torch.float64, requires_grad=True)
    keep = torch.tensor([0.2, 1e-4, 0.9, 0.999], dtype=torch.float64, requires_grad=True)
    inputs = (a, b) if function is kumaraswamy.mean else (keep, a, b)
    torch.autograd.gradcheck(function, inputs, eps=1e-7, rtol=1e-5)
