"""The quick path of a global rate is the tensor form, value and gradient."""

import itertools

import pytest
import torch

from graphdrop.graph.masks import stream_key, uniforms
from graphdrop.sampling.rates import kumaraswamy

CORNERS = (1e-3, 0.1, 0.8, 3.0, 1e3)


@pytest.mark.parametrize("u", [5.6e-17, 1e-6, 0.5, 1 - 1e-9, 1 - 1.2e-16])
def test_a_single_rate_draws_and_differentiates_as_a_vector_of_rates_does(u: float) -> None:
    log_u = torch.tensor(u, dtype=torch.float64).log()
    for corner in itertools.product(CORNERS, CORNERS):
        single = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in corner]
        vector = [p.detach()[None].requires_grad_() for p in single]
        one = kumaraswamy.logit(log_u, *single)
        many = kumaraswamy.logit(log_u[None], *vector)
        torch.testing.assert_close(one[None], many, rtol=1e-12, atol=1e-14)
        for quick, plain in zip(
            torch.autograd.grad(one, single), torch.autograd.grad(many.sum(), vector), strict=True
        ):
            torch.testing.assert_close(quick[None], plain, rtol=1e-10, atol=1e-14)


def test_a_single_uniform_is_the_first_of_many() -> None:
    for seed in range(64):
        key = stream_key(seed, step=seed * 7)
        assert torch.equal(uniforms(key, 1), uniforms(key, 3)[:1])
