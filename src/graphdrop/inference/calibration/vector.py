"""Vector scaling: a factor and a shift for the logit of every class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from graphdrop.inference.calibration.base import Calibrator, Samples, check_targets
from graphdrop.inference.calibration.temperature import TemperatureScaling

STEPS = 100
PULL = 1e-3
"""Weight of the squares by which factors and shifts are held to plain temperature scaling."""


class VectorScaling(Calibrator):
    r"""Multiply the logit of every class by a factor and add a shift.

    .. math:: p = \frac1S \sum_s \mathrm{softmax}(w \odot f_s + b)

    It starts from plain temperature scaling, and a small penalty holds it near: with few
    calibration nodes a shift of its own for every class over-fits.

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
        factor = torch.full((classes,), start, dtype=torch.float64, requires_grad=True)
        shift = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS(
            [factor, shift], max_iter=STEPS, line_search_fn="strong_wolfe"
        )

        def closure() -> Tensor:
            optimizer.zero_grad()
            log = torch.log_softmax(logits * factor + shift, 2).logsumexp(0)
            nll = -log.gather(1, targets[:, None]).mean()
            loss = nll + PULL * ((factor / start - 1.0).square().sum() + shift.square().sum())
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        with torch.enable_grad():
            optimizer.step(closure)  # type: ignore[no-untyped-call]
        return cls(factor.detach(), shift.detach())

    def as_json(self) -> dict[str, Any]:
        """Factors and shifts."""
        return {"factor": self.factor.tolist(), "shift": self.shift.tolist()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """A calibrator with the numbers of a file."""
        return cls(torch.tensor(values["factor"]), torch.tensor(values["shift"]))

    def __repr__(self) -> str:
        return f"VectorScaling({len(self.factor)} classes)"
