"""Vector scaling: a factor and a shift for the logit of every class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from graphdrop.calibration.temperature import TemperatureScaling
from graphdrop.inference.calibrator import Calibrator, Samples, check_targets

STEPS = 100
FACTOR_DEVIATION, SHIFT_DEVIATION = 0.2, 0.5
"""Standard deviations of the normal priors on the logarithms of the factors, relative to plain
temperature scaling, and on the shifts."""


class VectorScaling(Calibrator):
    r"""Multiply the logit of every class by a factor and add a shift.

    .. math:: p = \frac1S \sum_s \mathrm{softmax}(w \odot f_s + b)

    Normal priors hold it near plain temperature scaling, at the temperature :math:`T` of that: with
    few calibration nodes a shift of its own for every class over-fits. The penalty beside the NLL,
    summed over the nodes, is

    .. math:: \sum_c \frac{(\log w_c T)^2}{2 \cdot 0.2^2} + \frac{b_c^2}{2 \cdot 0.5^2}

    It is worth choosing where classes are too likely or not likely enough: on sampled logits with a
    known posterior its test NLL was then below that of temperature scaling from 5 nodes on, and
    elsewhere at most 0.01 above it.

    Args:
        factor: ``[classes]``.
        shift: ``[classes]``.

    Example:
        >>> calibrator = VectorScaling(torch.tensor([0.5, 1.0]), torch.tensor([0.0, 1.0]))
        >>> calibrator.correct(torch.tensor([[4.0, 0.0]])).tolist()
        [[2.0, 1.0]]
    """

    name: ClassVar[str] = "vector"

    def __init__(self, factor: Tensor, shift: Tensor) -> None:
        self.factor, self.shift = factor.float(), shift.float()

    def correct(self, outputs: Tensor) -> Tensor:
        """Factors times logits plus shifts."""
        factor, shift = self.factor.to(outputs), self.shift.to(outputs)
        return outputs * factor + shift

    @classmethod
    def fit(cls, samples: Samples, targets: Tensor) -> Self:
        """Factors and shifts of least penalized NLL on the calibration nodes."""
        check_targets(targets)
        start = 1.0 / TemperatureScaling.fit(samples, targets).temperature
        logits = torch.stack([one.double() for one in samples()])
        classes = logits.shape[2]
        apart = torch.zeros(2, classes, dtype=torch.float64, device=logits.device)
        apart.requires_grad_()  # logarithms of factors, and shifts, in deviations of their priors
        optimizer = torch.optim.LBFGS([apart], max_iter=STEPS, line_search_fn="strong_wolfe")

        def numbers() -> tuple[Tensor, Tensor]:
            return start * (FACTOR_DEVIATION * apart[0]).exp(), SHIFT_DEVIATION * apart[1]

        def closure() -> Tensor:
            optimizer.zero_grad()
            factor, shift = numbers()
            log = torch.log_softmax(logits * factor + shift, 2).logsumexp(0) - math.log(len(logits))
            nll = -log.gather(1, targets[:, None]).mean()
            loss = nll + 0.5 * apart.square().sum() / len(targets)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        with torch.enable_grad():
            optimizer.step(closure)  # type: ignore[no-untyped-call]
        return cls(*(number.detach() for number in numbers()))

    def as_json(self) -> dict[str, Any]:
        """Factors and shifts."""
        return {"factor": self.factor.tolist(), "shift": self.shift.tolist()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """A calibrator with the numbers of a file."""
        return cls(torch.tensor(values["factor"]), torch.tensor(values["shift"]))

    def __repr__(self) -> str:
        return f"VectorScaling({len(self.factor)} classes)"
