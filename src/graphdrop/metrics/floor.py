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

import numpy as np
import torch
from torch import Tensor

from graphdrop.metrics.calibration import calibration_error
from graphdrop.metrics.inputs import check_probabilities
from graphdrop.metrics.temperature import COLDEST, HOTTEST, apply_temperature

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

    The slope of the NLL in `1 / T` is the mean expected logit at `T` minus the mean logit of the
    labels. The first does not depend on the labels and rises with `1 / T`: it is tabulated once,
    and every draw of labels is looked up.

    Args:
        probabilities: the forecast `(n, classes)`.
        labels: drawn classes `(draws, n)`.
    """
    logits = _logits(probabilities)
    drawn = torch.stack([logits.gather(1, row[:, None]).mean() for row in labels])
    grid = torch.linspace(math.log(1.0 / HOTTEST), math.log(1.0 / COLDEST), POINTS).double()
    expected = [((logits * one).softmax(-1) * logits).sum(-1).mean() for one in grid.exp()]
    found = np.interp(drawn.numpy(), torch.stack(expected).numpy(), grid.numpy())
    return torch.from_numpy(np.exp(-found))


def refitted_by_entropy(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Shift and slope of entropy-based temperature scaling for many drawn labels, `(draws, 2)`.

    The truth is 0 for both, so one step of Fisher scoring from there is enough: the mean score of
    the labels, divided by the information, to which the normal prior of the slope adds.

    Args:
        probabilities: the forecast `(n, classes)`.
        labels: drawn classes `(draws, n)`.
    """
    columns, logits = _entropy_columns(probabilities), _logits(probabilities)
    chance = logits.softmax(-1)
    expected = (chance * logits).sum(-1)
    variance = (chance * logits.square()).sum(-1) - expected.square()
    information = columns.t() @ (columns * variance[:, None])
    information[1, 1] += 1.0
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
