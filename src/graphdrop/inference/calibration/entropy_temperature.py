"""Entropy-based temperature scaling: a temperature that depends on how sure the network is."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from graphdrop.inference.calibration.base import Calibrator, Samples, check_targets
from graphdrop.inference.calibration.temperature import COLDEST, HOTTEST, TemperatureScaling

SLOPE_DEVIATION = 1.0
"""Standard deviation of the normal prior of the slope: few nodes leave it near 0."""
LARGEST_EXPONENT = math.log(HOTTEST / COLDEST)


class EntropyTemperatureScaling(Calibrator):
    r"""Divide the logits of every sample by a temperature that depends on its node's entropy.

    .. math:: p_i = \frac1S \sum_s \mathrm{softmax}(f_{s,i} / T_i), \quad
        T_i = T \exp(a + b\,(h_i - \tfrac12))

    where :math:`h_i` is the entropy of the mean prediction at the temperature :math:`T`, divided by
    the logarithm of the number of classes. With a slope :math:`b = 0` it is temperature scaling. A
    network that is too sure of easy nodes and not sure enough of hard ones, or the other way
    around, needs the slope. The idea is that of Balanya, Maronas and Ramos, "Adaptive temperature
    scaling for robust calibration of deep neural networks" (2024).

    :math:`T` is fitted first; then :math:`a` and :math:`b` have the least NLL, with a normal prior
    of standard deviation 1 for :math:`b`.

    Args:
        temperature: the one that is best for all nodes.
        shift: :math:`a`.
        slope: :math:`b`; above 0, uncertain nodes become more uncertain.

    Example:
        >>> logits = torch.tensor([[[4.0, 0.0], [0.2, 0.0]]])  # one sample of two nodes
        >>> found = EntropyTemperatureScaling(1.0, 0.0, 2.0).reading(lambda: iter(logits))
        >>> [round(one, 2) for one in found.correct(logits[0])[:, 0].tolist()]
        [8.38, 0.07]
    """

    name: ClassVar[str] = "entropy-temperature"
    reads_samples: ClassVar[bool] = True

    def __init__(self, temperature: float, shift: float, slope: float) -> None:
        self.temperature = TemperatureScaling(temperature).temperature
        self.shift, self.slope = float(shift), float(slope)
        self._of_rows: Tensor | None = None

    def reading(self, samples: Samples) -> Self:
        """The calibrator for the rows of these samples, in their order."""
        seen = copy.copy(self)
        exponent = self.shift + self.slope * relative_entropy(samples, self.temperature)
        exponent = exponent.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT)
        seen._of_rows = self.temperature * exponent.exp()
        return seen

    def correct(self, outputs: Tensor) -> Tensor:
        """Logits over the temperatures of their rows."""
        if self._of_rows is None or len(self._of_rows) != outputs.shape[-2]:
            seen = "none" if self._of_rows is None else f"{len(self._of_rows)} rows"
            raise ValueError(
                f"outputs has {outputs.shape[-2]} rows and {type(self).__name__} has read {seen}; "
                "it takes the rows that it has read. Use predict(model, data, calibrator=...), or "
                "call reading(samples) first."
            )
        return outputs / self._of_rows.to(outputs)[:, None]

    @classmethod
    def fit(cls, samples: Samples, targets: Tensor) -> Self:
        """Shift and slope of least NLL on the calibration nodes, after the common temperature."""
        check_targets(targets)
        common = TemperatureScaling.fit(samples, targets).temperature
        entropy = relative_entropy(samples, common)
        columns = torch.stack([torch.ones_like(entropy), entropy], 1).cpu().numpy()
        precision = np.array([0.0, 1.0 / (len(targets) * SLOPE_DEVIATION**2)])

        def penalized(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            exponent = np.clip(columns @ values, -LARGEST_EXPONENT, LARGEST_EXPONENT)
            loss, slopes = _loss(samples, targets, common * torch.from_numpy(np.exp(exponent)))
            gradient = columns.T @ slopes + precision * values
            return loss + 0.5 * float(precision @ values**2), gradient

        found = minimize(penalized, np.zeros(2), jac=True, method="BFGS").x
        return cls(common, *found)

    def as_json(self) -> dict[str, Any]:
        """The three numbers."""
        return {"temperature": self.temperature, "shift": self.shift, "slope": self.slope}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """A calibrator with the numbers of a file."""
        return cls(*(float(values[name]) for name in ("temperature", "shift", "slope")))

    def __repr__(self) -> str:
        numbers = ", ".join(f"{v:.4g}" for v in (self.temperature, self.shift, self.slope))
        return f"EntropyTemperatureScaling({numbers})"


def relative_entropy(samples: Samples, temperature: float) -> Tensor:
    """``h - 1/2``: entropy of the mean prediction as a share of the largest, ``[rows]``."""
    total, count = torch.zeros(()), 0
    for outputs in samples():
        total = total.to(outputs.device) + torch.softmax(outputs.double() / temperature, -1)
        count += 1
    entropy: Tensor = torch.special.entr(total / count).sum(-1)
    return entropy / math.log(total.shape[-1]) - 0.5


def _loss(
    samples: Samples, targets: Tensor, temperatures: Tensor
) -> tuple[float, NDArray[np.float64]]:
    """The NLL of the mean over samples, and its derivatives by the logarithms of temperatures."""
    divisor = temperatures.to(targets.device)[:, None]
    chance = torch.zeros(len(targets), dtype=torch.float64, device=targets.device)
    change, count = torch.zeros_like(chance), 0
    for outputs in samples():
        logits = outputs.double() / divisor
        log = torch.log_softmax(logits, 1)
        own = log.gather(1, targets[:, None]).squeeze(1).exp()
        expected = (log.exp() * logits).sum(1)
        chance += own
        change += own * (expected - logits.gather(1, targets[:, None]).squeeze(1))
        count += 1
    chance = chance.clamp_min(torch.finfo(torch.float64).tiny)
    loss = -(chance / count).log().mean()
    return float(loss), (-change / chance / len(targets)).cpu().numpy()
