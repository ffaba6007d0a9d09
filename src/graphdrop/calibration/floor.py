"""The calibration error of a perfectly calibrated forecast on a finite number of nodes.

With few nodes the accuracy in a bin differs from its confidence by chance, so that even a perfectly
calibrated forecast has an error above 0. The error is simulated: labels of calibration and test
nodes are sampled from the forecast, and the calibrator is fitted again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import repeat
from typing import NamedTuple

import torch
from torch import Tensor

from graphdrop.calibration.mean_temperature import (
    COLDEST,
    DEVIATION,
    HOTTEST,
    SLOPE_DEVIATION,
    apply_temperature,
)
from graphdrop.metrics.calibration import calibration_error
from graphdrop.metrics.inputs import check_probabilities

DRAWS = 100
POINTS = 257
"""Temperatures at which the expected logit is tabulated, evenly spaced in their logarithm."""


class CalibrationFloor(NamedTuple):
    """The calibration error by chance alone of a forecast with these probabilities.

    The forecast is right but for its calibrator, which is fitted again on as many nodes.
    """

    mean: float
    high: float
    """The 95th percentile: an error above it is not chance."""


def calibration_floor(
    probabilities: Tensor,
    calibration: Tensor | None = None,
    *,
    bins: int = 15,
    draws: int = DRAWS,
    seed: int = 0,
    by_entropy: bool = False,
) -> CalibrationFloor:
    """Simulate the calibration error that chance alone gives.

    Args:
        probabilities: the forecast on the test nodes, `(n, classes)`.
        calibration: the forecast on the nodes that the calibrator was fitted on; it is fitted again
            on drawn labels of these. `None` leaves that part out.
        bins: of the calibration error.
        draws: how often labels are drawn.
        seed: of the labels.
        by_entropy: whether the calibrator is entropy-based temperature scaling; else it is taken
            for a temperature.
    """
    pairs = drawn_forecasts(probabilities, calibration, draws, seed, by_entropy=by_entropy)
    found = torch.stack([calibration_error(p, labels, bins=bins) for p, labels in pairs]).double()
    return CalibrationFloor(float(found.mean()), float(found.quantile(0.95)))


def drawn_forecasts(
    probabilities: Tensor,
    calibration: Tensor | None,
    draws: int,
    seed: int,
    *,
    by_entropy: bool,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Labels of the test nodes drawn from the forecast, each with the forecast calibrated again."""
    forecast = check_probabilities(probabilities)
    generator = torch.Generator().manual_seed(seed)
    shown: Iterator[Tensor] = repeat(forecast, draws)
    if calibration is not None:
        drawn = torch.multinomial(calibration, draws, replacement=True, generator=generator).t()
        if by_entropy:
            refitted = refitted_by_entropy(calibration, drawn)
            shown = (apply_by_entropy(forecast, one) for one in refitted)
        else:
            temperatures = refitted_temperatures(calibration, drawn).tolist()
            shown = (apply_temperature(forecast, one) for one in temperatures)
    labels = torch.multinomial(forecast, draws, replacement=True, generator=generator).t()
    return zip(shown, labels, strict=True)


def refitted_temperatures(probabilities: Tensor, labels: Tensor) -> Tensor:
    """`fit_temperature` for many drawn labels at once, `(draws,)`.

    The NLL is the mean logarithm of the sum of `exp(logits / T)`, which does not depend on the
    labels and is tabulated once, minus the mean logit of the labels over `T`. The least penalized
    value of the table is refined by the parabola through it and its neighbors.

    Args:
        probabilities: the forecast `(n, classes)`.
        labels: drawn classes `(draws, n)`.
    """
    logits = _logits(probabilities)
    drawn = torch.stack([logits.gather(1, row[:, None]).mean() for row in labels])
    grid = torch.linspace(math.log(COLDEST), math.log(HOTTEST), POINTS).double()
    normalizer = torch.stack([(logits / t).logsumexp(-1).mean() for t in grid.exp()])
    prior = grid.square() / (2.0 * len(logits) * DEVIATION**2)
    loss = normalizer + prior - drawn[:, None] / grid.exp()
    place = loss.argmin(1, keepdim=True).clamp(1, POINTS - 2)
    before, at, after = (loss.gather(1, place + step).squeeze(1) for step in (-1, 0, 1))
    step = (before - after) / (2.0 * (before - 2.0 * at + after)).clamp_min(1e-12)
    return (grid[place.squeeze(1)] + step.clamp(-1.0, 1.0) * (grid[1] - grid[0])).exp()


def refitted_by_entropy(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Shift and slope of entropy-based temperature scaling for many drawn labels, `(draws, 2)`.

    The truth is 0 for both, so one step of Fisher scoring from there is enough: the mean score of
    the labels, divided by the information, to which the normal priors add.

    Args:
        probabilities: the forecast `(n, classes)`.
        labels: drawn classes `(draws, n)`.
    """
    columns, logits = _entropy_columns(probabilities), _logits(probabilities)
    chance = logits.softmax(-1)
    expected = (chance * logits).sum(-1)
    variance = (chance * logits.square()).sum(-1) - expected.square()
    information = columns.t() @ (columns * variance[:, None])
    information[0, 0] += DEVIATION**-2
    information[1, 1] += SLOPE_DEVIATION**-2
    surprise = expected - torch.stack([logits.gather(1, y[:, None]).squeeze(1) for y in labels])
    steps: Tensor = torch.linalg.solve(information, (surprise @ columns).t()).t()
    return steps.clamp(-math.log(HOTTEST), math.log(HOTTEST))


def apply_by_entropy(probabilities: Tensor, shift_and_slope: Tensor) -> Tensor:
    """`softmax(log p / T)` with `log T = shift + slope (h - 1/2)`, h the relative entropy of p."""
    exponent = _entropy_columns(probabilities) @ shift_and_slope.double()
    tempered = _logits(probabilities) * (-exponent).exp()[:, None]
    return tempered.softmax(-1).to(probabilities.dtype)


def _entropy_columns(probabilities: Tensor) -> Tensor:
    """A column of ones, and the entropy as a share of the largest less 1/2, `(n, 2)`."""
    entropy = torch.special.entr(probabilities.double()).sum(-1)
    relative = entropy / math.log(probabilities.shape[-1]) - 0.5
    return torch.stack([torch.ones_like(relative), relative], 1)


def _logits(probabilities: Tensor) -> Tensor:
    return probabilities.double().clamp_min(torch.finfo(torch.float32).tiny).log()
