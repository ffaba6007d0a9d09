"""Rates near 0 and 1, and low temperatures: what 16 bits represent, against exact integrals."""

import math

import numpy as np
import pytest
import torch
from scipy.special import expit
from torch import Tensor

from graphdrop.graph.masks import (
    NOMINAL_KEEP,
    Kind,
    Mask,
    concrete_logits,
    multipliers,
    reads_all_bits,
    represented_keep,
    rescale_factor,
    stream_key,
    widest_logit,
)

EVERY_DRAW = torch.arange(1 << 16)
KEEPS = [2.0**-17 * 1.001, 1e-5, 2.0**-16, 1e-4, 0.3, 0.5, 0.999, 1 - 1e-5, 1 - 1e-7]
TOO_LOW = [2.0**-17, 1e-6, 1e-12]


def logit_of(keep: float) -> Tensor:
    return torch.logit(torch.tensor(keep, dtype=torch.float64))


def mask(kind: Kind, keep_logit: Tensor, temperature: float = 0.67) -> Mask:
    return Mask(kind, keep_logit, stream_key(0), temperature=temperature)


def every_multiplier(kind: Kind, keep_logit: Tensor, temperature: float = 0.67) -> Tensor:
    described = mask(kind, keep_logit, temperature)
    return multipliers(EVERY_DRAW, described, keep_logit, torch.float64)


def test_the_represented_keep_is_the_share_of_draws_that_are_kept() -> None:
    for keep in (*KEEPS, *TOO_LOW):
        share = every_multiplier(Kind.HARD, logit_of(keep)).mean()
        assert float(represented_keep(logit_of(keep))) == float(share)
        assert abs(float(share) - keep) <= 2.0**-17
        assert (float(share) == 0.0) == (keep in TOO_LOW)


def test_the_represented_keep_has_the_gradient_of_the_nominal_one() -> None:
    logit = torch.tensor([-9.0, -0.3, 4.0], dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(represented_keep(logit).sum(), logit)
    (wanted,) = torch.autograd.grad(torch.sigmoid(logit).sum(), logit)
    assert torch.equal(found, wanted)


def test_a_rescaled_hard_mask_has_an_expectation_of_one() -> None:
    for keep in KEEPS:
        factor = rescale_factor(mask(Kind.HARD, logit_of(keep)))
        rescaled = every_multiplier(Kind.HARD, logit_of(keep)) * factor
        exact = 1e-12 if keep < NOMINAL_KEEP else 2.0**-11
        assert float(rescaled.mean()) == pytest.approx(1.0, rel=exact)


@pytest.mark.parametrize("keep", TOO_LOW)
def test_a_mask_that_keeps_nothing_is_finite_with_its_factor_and_its_gradient(keep: float) -> None:
    logit = logit_of(keep).requires_grad_()
    factor = rescale_factor(mask(Kind.HARD, logit))
    assert float(factor.detach()) == 0.0
    factor.backward()  # type: ignore[no-untyped-call]
    assert float(logit.grad) == 0.0


def exact(keep_logit: float, temperature: float) -> tuple[float, float, float]:
    """``E[z]``, ``E[1 - z]`` and the slope of both in the logit, over a true uniform."""
    # in logit(u): fine steps where the mask changes, coarser ones over the whole distribution
    changing = -keep_logit + temperature * np.linspace(-60.0, 60.0, 200_001)
    at = np.unique(np.concatenate([np.linspace(-60.0, 60.0, 1_000_001), changing]))
    density, y = expit(at) * expit(-at), (keep_logit + at) / temperature
    terms = (expit(y), expit(-y), expit(y) * expit(-y) / temperature)
    kept, dropped, slope = (float(np.trapezoid(term * density, at)) for term in terms)
    return kept, dropped, slope


@pytest.mark.parametrize(
    ("keep", "temperature"),
    [
        *[(0.999, 0.05), (0.001, 0.05), (0.5, 0.002), (1e-4, 1.0)],
        *[(0.05, 0.1), (0.5, 0.67), (0.998, 0.5)],
        *[(0.9990, 1.0), (0.99951, 2.0), (0.9902, 0.1)],
    ],
)
def test_means_and_slopes_over_all_draws_are_within_a_thousandth_of_the_exact_ones(
    keep: float, temperature: float
) -> None:
    """Far beyond the reach of 12 bits, well within it, and where it just ends."""
    logit = logit_of(keep).requires_grad_()
    z = every_multiplier(Kind.CONCRETE, logit, temperature)
    (slope,) = torch.autograd.grad(z.mean(), logit)
    found = (float(z.detach().mean()), float((1.0 - z.detach()).mean()), float(slope))
    assert found == pytest.approx(exact(float(logit.detach()), temperature), rel=1e-3)


def test_float32_and_float64_logits_are_told_apart_by_one_bound() -> None:
    for temperature in (0.05, 0.3, 0.67):
        bound = torch.tensor(widest_logit(temperature))
        around = torch.stack([bound.nextafter(torch.tensor(side)) for side in (0.0, 99.0)])
        for logits in (around, around.double(), -around):
            assert reads_all_bits(logits, temperature).tolist() == [False, True]


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_certain_mask_is_zero_or_one_at_every_draw(sign: float) -> None:
    z = every_multiplier(Kind.CONCRETE, torch.tensor(sign * math.inf), 0.05)
    assert torch.equal(z, torch.full_like(z, float(sign > 0.0)))


def test_a_draw_and_its_complement_are_mirrored_with_all_bits_too() -> None:
    logits = concrete_logits(torch.float64, bits=16)
    torch.testing.assert_close(logits.flip(0), -logits, rtol=1e-12, atol=1e-12)
    assert len(logits) == 1 << 16
