"""Numbers with their variance in two parts, from samples that are written down."""

import pytest
import torch
from scipy.stats import norm
from torch import Tensor

from graphdrop.inference import GaussianPredictive, predictive


def some_samples(samples: int = 7, nodes: int = 5, targets: int = 2) -> tuple[Tensor, Tensor]:
    """Means and standard deviations, `[samples, nodes, targets]`."""
    generator = torch.Generator().manual_seed(0)
    shape = (samples, nodes, targets)
    mean = 3 + torch.randn(shape, generator=generator, dtype=torch.float64)
    return mean, 0.2 + torch.rand(shape, generator=generator, dtype=torch.float64)


def summary_of(mean: Tensor, deviation: Tensor) -> GaussianPredictive:
    outputs = torch.cat([mean, 2 * deviation.log()], -1)
    summary = predictive.sum_samples(iter(outputs), "gaussian", False)
    assert isinstance(summary, GaussianPredictive)
    return summary


def close(found: Tensor, wanted: Tensor, relative: float = 1e-6) -> None:
    torch.testing.assert_close(found.double(), wanted.double(), rtol=relative, atol=0)


@pytest.mark.parametrize("together", [1, 50])
def test_every_figure_is_that_of_its_definition(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictive, "FOLDED_NUMBERS", together)
    mean, deviation = some_samples()
    summary = summary_of(mean, deviation)
    close(summary.mean, mean.mean(0))
    close(summary.aleatoric, deviation.square().mean(0))
    close(summary.epistemic, mean.var(0, correction=0))
    close(summary.variance, summary.aleatoric + summary.epistemic)
    assert summary.samples == 7


def test_a_spread_far_below_the_mean_is_still_found() -> None:
    mean = 1e6 + torch.tensor([1e-4, -1e-4, 0.0], dtype=torch.float64).view(3, 1, 1)
    close(summary_of(mean, torch.ones_like(mean)).epistemic, mean.var(0, correction=0), 1e-3)


@pytest.mark.parametrize("level", [0.5, 0.99])
def test_intervals_are_those_of_a_gaussian_with_the_same_moments(level: float) -> None:
    summary = summary_of(*some_samples())
    exact = norm.interval(level, loc=summary.mean, scale=summary.variance.sqrt())
    for found, wanted in zip(summary.intervals(level), exact, strict=True):
        close(found, torch.from_numpy(wanted), 1e-5)
    with pytest.raises(ValueError, match=r"level is 1\.0; it takes a number between 0 and 1"):
        summary.intervals(1.0)


@pytest.mark.parametrize("shape", [(5, 3), (6,)])
def test_an_output_without_a_log_variance_for_every_mean_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"output='gaussian' takes \[nodes, 2 \* targets\]"):
        predictive.sum_samples(iter([torch.zeros(shape)]), "gaussian", False)
