"""The calibration error of a perfectly calibrated forecast on a finite number of nodes.

With few nodes the accuracy in a bin differs from its confidence by chance, so that even a perfectly
calibrated forecast has an error above 0. The error is simulated: labels of calibration and test
nodes are sampled from the forecast, and the calibrator is fitted again.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from graphdrop.metrics.calibration import calibration_error
from graphdrop.metrics.inputs import check_probabilities
from graphdrop.metrics.temperature import apply_temperature, fit_temperature

DRAWS = 100


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
    errors = []
    for _ in range(draws):
        shown = forecast
        if calibration is not None:
            drawn = torch.multinomial(calibration, 1, generator=generator).squeeze(1)
            shown = apply_temperature(forecast, fit_temperature(calibration, drawn))
        labels = torch.multinomial(forecast, 1, generator=generator).squeeze(1)
        errors.append(calibration_error(shown, labels, bins=bins))
    found = torch.stack(errors).double()
    return CalibrationFloor(float(found.mean()), float(found.quantile(0.95)))
