"""The calibration error of a perfectly calibrated forecast on a finite number of nodes.

With few nodes the accuracy in a bin differs from its confidence by chance, so that even a perfectly
calibrated forecast has an error above 0. The error is simulated: labels of calibration and test
nodes are sampled from the forecast, and the calibrator is fitted again.
"""

from __future__ import annotations

import math
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
    """The calibration error of a perfect forecaster with these probabilities."""

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
) -> CalibrationFloor:
    """Simulate the calibration error that chance alone gives.

    Args:
        probabilities: the forecast on the test nodes, `(n, classes)`.
        calibration: the forecast on the nodes that a temperature was fitted on; it is fitted again
            on drawn labels of these. `None` leaves that part out.
        bins: of the calibration error.
        draws: how often labels are drawn.
        seed: of the labels.
    """
    forecast = check_probabilities(probabilities)
    generator = torch.Generator().manual_seed(seed)
    temperatures = torch.ones(draws, dtype=torch.float64)
    if calibration is not None:
        drawn = torch.multinomial(calibration, draws, replacement=True, generator=generator)
        temperatures = refitted_temperatures(calibration, drawn.t())
    labels = torch.multinomial(forecast, draws, replacement=True, generator=generator).t()
    errors = [
        calibration_error(apply_temperature(forecast, float(one)), row, bins=bins)
        for one, row in zip(temperatures, labels, strict=True)
    ]
    found = torch.stack(errors).double()
    return CalibrationFloor(float(found.mean()), float(found.quantile(0.95)))


def refitted_temperatures(probabilities: Tensor, labels: Tensor) -> Tensor:
    """`fit_temperature` for many drawn labels at once, `(draws,)`.

    The slope of the NLL in `1 / T` is the mean expected logit at `T` minus the mean logit of the
    labels. The first does not depend on the labels and rises with `1 / T`: it is tabulated once,
    and every draw of labels is looked up.

    Args:
        probabilities: the forecast `(n, classes)`.
        labels: drawn classes `(draws, n)`.
    """
    logits = probabilities.double().clamp_min(torch.finfo(torch.float32).tiny).log()
    drawn = torch.stack([logits.gather(1, row[:, None]).mean() for row in labels])
    grid = torch.linspace(math.log(1.0 / HOTTEST), math.log(1.0 / COLDEST), POINTS).double()
    expected = [((logits * one).softmax(-1) * logits).sum(-1).mean() for one in grid.exp()]
    found = np.interp(drawn.numpy(), torch.stack(expected).numpy(), grid.numpy())
    return torch.from_numpy(np.exp(-found))
