"""A relaxed mask with a rate of its own: one table has the distribution of the two draws."""

import itertools

import numpy as np
import pytest
import torch
from scipy import special, stats
from torch import Tensor

from graphdrop.graph.masks import DRAW_BITS, TABLE_BITS
from graphdrop.sampling.rates import BetaBernoulliRate, kumaraswamy, marginal

POSTERIORS = [(1.5, 0.97), (0.05, 0.05), (5.0, 100.0), (30.0, 2.0)]
CORNERS = [
    *itertools.product((1e-3, 1e3), repeat=2),
    *[(1.0, 1.0), (0.05, 0.05), (1e-3, 1.0), (1.0, 1e-3), (0.05, 1e3), (1e3, 0.05)],
]


def float64(*values: float) -> list[Tensor]:
    return [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in values]


def midpoints(count: int) -> np.ndarray:
    return (np.arange(count) + 0.5) / count


def logits_of_rates(u: np.ndarray, a: float, b: float) -> np.ndarray:
    """The logit of `(1 - u^(1/b))^(1/a)`."""
    return kumaraswamy.logit(
        torch.from_numpy(u).log(), *(v.detach() for v in float64(a, b))
    ).numpy()


@pytest.mark.parametrize(
    ("a", "b", "temperature"),
    [(*one, 0.67) for one in POSTERIORS] + [(0.05, 0.05, 10.0), (1.5, 0.97, 30.0)],
)
def test_entries_are_the_quantiles_of_the_two_draws(a: float, b: float, temperature: float) -> None:
    logits = logits_of_rates(midpoints(200_000), a, b)
    multiplier = marginal.table(*float64(a, b), temperature).multiplier
    assert len(multiplier) == 1 << TABLE_BITS
    for entry in (0, 7, 400, 2048, 3900, 4095):
        wanted = (entry + 0.5) / 4096
        # below 0 or above 1 by less than float64 can say
        kept = np.clip(multiplier[entry].item(), 1e-16, 1.0 - 1e-16)
        score = temperature * special.logit(kept)
        got = float(special.expit(score - logits).mean())
        if kept == 1e-16:
            assert got >= wanted
        elif kept == 1.0 - 1e-16:
            assert got <= wanted
        else:
            assert got == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(("a", "b"), POSTERIORS)
def test_masks_are_distributed_as_if_drawn_in_two_stages(a: float, b: float) -> None:
    """A correct table fails once in a million tries: Kolmogorov and Smirnov's test."""
    random, temperature = np.random.default_rng(3), 0.67
    logits = logits_of_rates(random.random(200_000), a, b)
    noise = special.logit(random.random(200_000))
    values = torch.from_numpy(random.integers(0, 1 << DRAW_BITS, 200_000))
    read = marginal.table(*float64(a, b), temperature).read(values, torch.float64)
    two_stages = special.expit((logits + noise) / temperature)
    alike = [np.maximum(one, 1e-15) for one in (read.detach().numpy(), two_stages)]  # 0 is 0
    assert stats.ks_2samp(*alike).pvalue > 1e-6
    at_the_mean = special.expit((special.logit(special.expit(logits).mean()) + noise) / temperature)
    assert stats.ks_2samp(at_the_mean, two_stages).pvalue < 1e-6


@pytest.mark.parametrize(("a", "b"), CORNERS)
def test_slopes_are_those_of_the_entries_and_finite(a: float, b: float) -> None:
    for temperature in (0.67, 0.1):
        table = marginal.table(*float64(a, b), temperature)
        assert bool(((table.multiplier >= 0.0) & (table.multiplier <= 1.0)).all())
        assert bool((table.multiplier.diff() >= 0.0).all())
        for number, slopes in enumerate(table.slopes):
            step = 1e-5 * (a, b)[number]
            ends = [[a, b], [a, b]]
            ends[0][number] -= step
            ends[1][number] += step
            less, more = (marginal.table(*float64(*end), temperature).multiplier for end in ends)
            wanted = (more - less) / (2.0 * step)
            scale = max(wanted.abs().max().item(), 1e-9)
            torch.testing.assert_close(slopes / scale, wanted / scale, rtol=0.0, atol=1e-4)


@pytest.mark.parametrize(("a", "b", "power"), [(*one, 2) for one in POSTERIORS] + [(1.5, 0.97, 1)])
def test_the_mean_gradient_is_that_of_the_mean_over_both_draws(
    a: float, b: float, power: int
) -> None:
    temperature, noise = 0.67, special.logit(midpoints(1500))

    def loss(a: float, b: float) -> float:
        logits = logits_of_rates(midpoints(1500), a, b)
        return float((special.expit((logits[:, None] + noise) / temperature) ** power).mean())

    parameters = float64(a, b)
    values = torch.arange(1 << DRAW_BITS)
    read = marginal.table(*parameters, temperature).read(values, torch.float64)
    got = torch.autograd.grad((read**power).mean(), parameters)
    assert read.pow(power).mean().item() == pytest.approx(loss(a, b), rel=1e-3)
    step_a, step_b = 1e-4 * a, 1e-4 * b
    by_a = (loss(a + step_a, b) - loss(a - step_a, b)) / (2 * step_a)
    by_b = (loss(a, b + step_b) - loss(a, b - step_b)) / (2 * step_b)
    assert [one.item() for one in got] == pytest.approx([by_a, by_b], rel=3e-3)


@pytest.mark.parametrize(("a", "b"), CORNERS)
def test_the_logit_of_the_mean_is_exact_and_has_a_finite_gradient(a: float, b: float) -> None:
    parameters = float64(a, b)
    logit = kumaraswamy.mean_logit(*parameters)
    log_mean = np.log(b) + special.betaln(1.0 + 1.0 / a, b)
    assert logit.item() == pytest.approx(log_mean - np.log(-np.expm1(log_mean)), rel=1e-8, abs=1e-8)
    gradients = torch.autograd.grad(logit, parameters)
    for number, gradient in enumerate(gradients):
        ends = []
        for sign in (-1.0, 1.0):
            moved = [a, b]
            moved[number] *= 1.0 + sign * 1e-4
            ends.append(kumaraswamy.mean_logit(*float64(*moved)).item())
        slope = (ends[1] - ends[0]) / (2e-4 * (a, b)[number])
        assert gradient.item() == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_what_a_rate_cannot_be_drawn_for_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rate_draw is 'edge'; it takes 'layer'.* or 'mask'"):
        BetaBernoulliRate(rate_draw="edge")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"rate_draw is 'mask' and entries is 3; a local rate"):
        BetaBernoulliRate(entries=3, rate_draw="mask")
