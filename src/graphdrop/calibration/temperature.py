"""Temperature scaling of Monte Carlo predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from graphdrop.calibration.mean_temperature import most_probable_temperature
from graphdrop.inference.calibrator import Calibrator, Samples, check_targets


class TemperatureScaling(Calibrator):
    r"""Divide the logits of every sample by one temperature.

    .. math:: p = \frac1S \sum_s \mathrm{softmax}(f_s / T)

    The logarithm of :math:`T` has a normal prior around 0, so that few nodes leave :math:`T` near
    1, and nodes that are all right do not make it 0. On :math:`n` nodes with classes :math:`y_i`

    .. math:: T = \arg\min_T \; -\sum_{i=1}^n \log p_{i,y_i} + \frac{(\log T)^2}{2 \cdot 0.3^2}

    The samples are tempered, not their mean. The NLL of their mean can have several minima in
    :math:`T`, so it is searched on a grid of :math:`\log T`, then between the best one's neighbors.

    It is worth choosing from 5 calibration nodes on, the least that was measured: on sampled logits
    with a known posterior the mean test NLL was below that without calibration.

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
        """The temperature of least penalized NLL on the calibration nodes."""
        check_targets(targets)
        nodes = len(targets)
        return cls(most_probable_temperature(lambda t: _losses(samples, targets, t), nodes))

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
