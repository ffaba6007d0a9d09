"""The KL from a Kumaraswamy to a beta distribution is exact, also where its series crawls."""

import functools
import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
import scipy.special
import torch

from graphdrop.sampling.rates import kumaraswamy

PARAMETERS = (1e-3, 0.01, 0.1, 0.5, 1.0, 3.0, 30.0, 1e3)
PRIORS = ((0.8, 1.0), (0.05, 0.05), (0.05, 10.0), (10.0, 0.05), (3.0, 2.5), (0.2, 0.6))


def integration_points(a: float, b: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for functions of the logit: Gauss-Legendre, piece by piece."""
    far_left, far_right = 20 + 80 / a, 20 + 80 / b
    edges = np.concatenate(
        [
            -np.geomspace(far_left, 20, 1 + math.ceil(8 * math.log(far_left / 20))),
            np.linspace(-20, 20, 81)[1:-1],
            np.geomspace(20, far_right, 1 + math.ceil(8 * math.log(far_right / 20))),
        ]
    )
    nodes, weights = np.polynomial.legendre.leggauss(24)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()


@functools.cache
def expectations(a: float, b: float) -> tuple[float, float, float]:
    """`E[log pi]`, `E[log(1 - pi)]` and `E[log q(pi)]`, integrated from the density alone."""
    x, weights = integration_points(a, b)
    with np.errstate(divide="ignore"):
        log_keep, log_drop = scipy.special.log_expit(x), scipy.special.log_expit(-x)
        # log(1 - pi^a), which is log a + log(1 - pi) once pi is within 1e-17 of 1.
        log_rest = np.where(x > 40, math.log(a) - x, np.log(-np.expm1(a * log_keep)))
    log_density = math.log(a * b) + (a - 1) * log_keep + (b - 1) * log_rest
    mass = weights * np.exp(log_density + log_keep + log_drop)
    assert mass.sum() == pytest.approx(1, abs=1e-10)
    log_keep_mean, log_drop_mean, log_density_mean = (
        float((mass * values).sum()) for values in (log_keep, log_drop, log_density)
    )
    return log_keep_mean, log_drop_mean, log_density_mean


def integrated_kl(a: float, b: float, alpha: float, beta: float) -> float:
    """`E[log q - log p]` with the expectations integrated numerically."""
    log_keep, log_drop, log_density = expectations(a, b)
    log_prior = (alpha - 1) * log_keep + (beta - 1) * log_drop - scipy.special.betaln(alpha, beta)
    return float(log_density - log_prior)


def grid() -> Iterator[tuple[float, float]]:
    return itertools.product(PARAMETERS, PARAMETERS)


def grid_tensors(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    a, b = torch.tensor(list(grid()), dtype=dtype).T
    return a.clone().requires_grad_(), b.clone().requires_grad_()


@pytest.mark.parametrize(("alpha", "beta"), PRIORS)
def test_kl_equals_numerical_integration(alpha: float, beta: float) -> None:
    a, b = grid_tensors(torch.float64)
    expected = [integrated_kl(*at, alpha, beta) for at in grid()]
    kl = kumaraswamy.kl_to_beta(a, b, alpha, beta).detach()
    np.testing.assert_allclose(kl, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("alpha", "beta"), PRIORS)
def test_gradient_of_the_kl_equals_differences_of_the_integral(alpha: float, beta: float) -> None:
    a, b = grid_tensors(torch.float64)
    gradients = torch.autograd.grad(kumaraswamy.kl_to_beta(a, b, alpha, beta).sum(), (a, b))
    step = 1e-4
    for at, *got in zip(grid(), *gradients, strict=True):
        for which, gradient in enumerate(got):
            # Fourth order, in the logarithm of the parameter.
            factors = [math.exp(k * step) for k in (-2, -1, 1, 2)]
            shifted = [
                integrated_kl(
                    at[0] * (factor if which == 0 else 1),
                    at[1] * (factor if which == 1 else 1),
                    alpha,
                    beta,
                )
                for factor in factors
            ]
            difference = (shifted[0] - 8 * shifted[1] + 8 * shifted[2] - shifted[3]) / (12 * step)
            noise = 1e-15 / step * max(abs(value) for value in shifted)
            assert float(gradient) * at[which] == pytest.approx(
                difference, rel=1e-6, abs=1e-6 + 10 * noise
            ), (at, which)


@pytest.mark.parametrize("alpha", [0.05, 0.8, 3.0])
def test_kl_is_the_closed_form_of_the_paper_at_prior_beta_one(alpha: float) -> None:
    a, b = (x.detach() for x in grid_tensors(torch.float64))
    expected = (
        (a - alpha) / a * (-np.euler_gamma - torch.digamma(b) - 1 / b)
        + torch.log(a * b / alpha)
        - (b - 1) / b
    )
    torch.testing.assert_close(kumaraswamy.kl_to_beta(a, b, alpha, 1.0), expected)


@pytest.mark.parametrize("value", [1e-3, 0.8, 1e3])
def test_kl_is_zero_where_posterior_and_prior_coincide_and_positive_beside_it(value: float) -> None:
    # Kumaraswamy(c, 1) = Beta(c, 1) and Kumaraswamy(1, c) = Beta(1, c).
    at, one = torch.tensor([value, 1.3 * value], dtype=torch.float64), torch.ones(2).double()
    for same, beside in (
        kumaraswamy.kl_to_beta(at, one, value, 1.0).tolist(),
        kumaraswamy.kl_to_beta(one, at, 1.0, value).tolist(),
    ):
        assert same == pytest.approx(0, abs=1e-8)
        assert beside > 0.01


def test_many_entries_taken_in_chunks_give_the_same_as_all_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = grid_tensors(torch.float64)

    def value_and_gradients() -> tuple[torch.Tensor, ...]:
        value = kumaraswamy.expected_log_drop(a.view(2, -1), b.view(2, -1))
        return value, *torch.autograd.grad(value.square().sum(), (a, b))

    at_once = value_and_gradients()
    monkeypatch.setattr(kumaraswamy, "_CHUNK", 7)
    torch.testing.assert_close(value_and_gradients(), at_once, rtol=1e-12, atol=0)
