"""The calibration error of a perfectly calibrated forecast on a finite number of nodes.

With few nodes the accuracy in a bin differs from its confidence by chance, so that even a perfectly
calibrated forecast has an error above 0. The error is simulated: labels of calibration and test
nodes are sampled from the forecast, and the calibrator is fitted again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from graphdrop.calibration.temperature import DEVIATION, HOTTEST, SLOPE_DEVIATION
from graphdrop.metrics.calibration import calibration_error
from graphdrop.metrics.inputs import check_probabilities

DRAWS = 100


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
    pairs = simulate_forecasts(probabilities, calibration, draws, seed, by_entropy=by_entropy)
    found = torch.stack([calibration_error(p, labels, bins=bins) for p, labels in pairs]).double()
    return CalibrationFloor(float(found.mean()), float(found.quantile(0.95)))


def simulate_forecasts(
    probabilities: Tensor,
    calibration: Tensor | None,
    draws: int,
    seed: int,
    *,
    by_entropy: bool,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Draw labels of the test nodes from the forecast, each with the forecast calibrated again."""
    forecast = check_probabilities(probabilities)
    generator = torch.Generator().manual_seed(seed)
    refits: list[Tensor | None] = [None] * draws
    if calibration is not None:
        drawn = torch.multinomial(calibration, draws, replacement=True, generator=generator)
        refits = list(refit(calibration, drawn.t(), by_entropy=by_entropy))
    labels = torch.multinomial(forecast, draws, replacement=True, generator=generator).t()
    for numbers, row in zip(refits, labels, strict=True):
        yield forecast if numbers is None else rescale(forecast, numbers), row


def refit(probabilities: Tensor, labels: Tensor, *, by_entropy: bool) -> Tensor:
    """Fit temperature scaling, with or without a slope, to many drawn labels at once.

    The truth is 0 for the logarithm of the temperature and for the slope, so one step of Fisher
    scoring from there is enough: the mean score of the labels, divided by the information, to which
    the normal priors add.

    Args:
        probabilities: the forecast ``(n, classes)``.
        labels: drawn classes ``(draws, n)``.
        by_entropy: whether there is a slope.

    Returns:
        The logarithm of the temperature, and the slope if there is one, ``(draws, 1 or 2)``.
    """
    logits, columns = _read_forecast(probabilities)
    columns = columns if by_entropy else columns[:, :1]
    chance = logits.softmax(-1)
    expected = (chance * logits).sum(-1)
    variance = (chance * logits.square()).sum(-1) - expected.square()
    precision = torch.tensor([DEVIATION**-2, SLOPE_DEVIATION**-2]).to(columns)
    information = columns.t() @ (columns * variance[:, None])
    information += precision[: columns.shape[1]].diag()
    surprise = expected - torch.stack([logits.gather(1, y[:, None]).squeeze(1) for y in labels])
    steps: Tensor = torch.linalg.solve(information, (surprise @ columns).t()).t()
    return steps.clamp(-math.log(HOTTEST), math.log(HOTTEST))


def rescale(probabilities: Tensor, numbers: Tensor) -> Tensor:
    """``softmax(log p / T)`` by what ``refit`` found, ``log T = shift + slope (h - 1/2)``."""
    logits, columns = _read_forecast(probabilities)
    temperatures = (columns[:, : len(numbers)] @ numbers.double()).exp()
    return (logits / temperatures[:, None]).softmax(-1).to(probabilities.dtype)


def _read_forecast(probabilities: Tensor) -> tuple[Tensor, Tensor]:
    """The logits; and beside a column of ones h - 1/2, h the entropy as a share of the largest."""
    p = probabilities.double()
    relative = torch.special.entr(p).sum(-1) / math.log(p.shape[-1]) - 0.5
    logits = p.clamp_min(torch.finfo(torch.float32).tiny).log()
    return logits, torch.stack([torch.ones_like(relative), relative], 1)
