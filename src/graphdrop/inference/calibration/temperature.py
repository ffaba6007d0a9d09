"""Temperature scaling of Monte Carlo predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from graphdrop.inference.calibration.base import FEW, Calibrator, Samples, check_targets

COLDEST, HOTTEST = 1e-2, 1e2
GRID = 33
"""Temperatures that are tried first, evenly spaced in their logarithm."""
PRIOR_BELOW = 2 * FEW
"""With fewer nodes the logarithm of the temperature has a standard normal prior: where all of them
are right, the likelihood alone would take the coldest temperature there is."""
ACCURACY = 1e-5
"""Of the logarithm of the temperature, between the neighbors of the best one on the grid."""


class TemperatureScaling(Calibrator):
    r"""Divide the logits of every sample by one temperature.

    .. math:: p = \frac1S \sum_s \mathrm{softmax}(f_s / T)

    The samples are tempered, not their mean. The NLL of their mean can have several minima in
    :math:`T`, so it is searched on a grid of :math:`\log T`, then between the best one's neighbors.

    Args:
        temperature: above 1 the prediction becomes less confident, below 1 more.

    Example:
        >>> TemperatureScaling(2.0).correct(torch.tensor([[4.0, 0.0]])).tolist()
        [[2.0, 0.0]]
    """

    name: ClassVar[str] = "temperature"

    def __init__(self, temperature: float) -> None:
        if not (temperature > 0.0 and math.isfinite(temperature)):
            raise ValueError(f"temperature is {temperature}; it takes a finite number above 0.")
        self.temperature = float(temperature)

    def correct(self, outputs: Tensor) -> Tensor:
        """Logits over the temperature."""
        return outputs / self.temperature

    @classmethod
    def fit(cls, samples: Samples, targets: Tensor) -> Self:
        """The temperature of least NLL on the calibration nodes, held near 1 if these are few."""
        check_targets(targets)
        grid = torch.linspace(math.log(COLDEST), math.log(HOTTEST), GRID, dtype=torch.float64)
        losses = _losses(samples, targets, grid.exp())
        spread = float(losses.max() - losses.min())
        precision = 1.0 / len(targets) if len(targets) < PRIOR_BELOW else 0.0
        losses = losses + 0.5 * precision * grid.square()
        place = int(losses.argmin())
        if spread <= 1e-12:
            return cls(1.0)  # it makes no difference

        def loss(log: float) -> float:
            own = float(_losses(samples, targets, torch.tensor([math.exp(log)])))
            return own + 0.5 * precision * log**2

        ends = float(grid[max(0, place - 1)]), float(grid[min(GRID - 1, place + 1)])
        found = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": ACCURACY})
        return cls(math.exp(found.x if found.fun <= losses[place] else float(grid[place])))

    def as_json(self) -> dict[str, Any]:
        """The temperature."""
        return {"temperature": self.temperature}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """A calibrator with the temperature of a file."""
        return cls(float(values["temperature"]))

    def __repr__(self) -> str:
        return f"TemperatureScaling({self.temperature:.4g})"


def _losses(samples: Samples, targets: Tensor, temperatures: Tensor) -> Tensor:
    """The NLL of the mean over samples at every temperature, in one pass over the samples."""
    shape, device = (len(temperatures), len(targets)), targets.device
    chance, count = torch.zeros(shape, dtype=torch.float64, device=device), 0
    for outputs in samples():
        logits = outputs.double()
        for number, temperature in enumerate(temperatures):
            log = torch.log_softmax(logits / temperature, 1)
            chance[number] += log.gather(1, targets[:, None]).squeeze(1).exp()
        count += 1
    smallest = torch.finfo(torch.float64).tiny
    return -(chance / count).clamp_min(smallest).log().mean(1)
