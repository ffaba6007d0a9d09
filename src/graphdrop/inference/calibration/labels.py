"""Calibration of labels and links: a temperature per label, or Platt scaling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from graphdrop.inference.calibration.base import Calibrator, Samples, check_targets

ENOUGH = 30
"""A label with at least this many positives and negatives has its own temperature."""
STEPS = 100


class LabelScaling(Calibrator):
    r"""Correct the logit of every entry: :math:`a_l f + b_l`.

    A label with enough of both answers has a temperature of its own (:math:`b_l = 0`). The others,
    and links, share Platt's two numbers, fitted on all of their entries together.

    Args:
        factor: ``[labels]``, or one number for all entries.
        shift: as many.

    Example:
        >>> calibrator = LabelScaling(torch.tensor([0.5]), torch.tensor([1.0]))
        >>> calibrator.correct(torch.tensor([[4.0]])).tolist()
        [[3.0]]
    """

    name: ClassVar[str] = "labels"
    output: ClassVar[str] = "labels"

    def __init__(self, factor: Tensor, shift: Tensor) -> None:
        self.factor, self.shift = factor.float(), shift.float()

    def correct(self, outputs: Tensor) -> Tensor:
        """Factors times logits plus shifts."""
        return outputs * self.factor.to(outputs) + self.shift.to(outputs)

    @classmethod
    def fit(cls, samples: Samples, targets: Tensor) -> Self:
        """Factors and shifts of least NLL on the calibration entries."""
        check_targets(targets)
        logits = torch.stack([one.double() for one in samples()])
        truth = targets.double()
        if truth.dim() == 1:
            factor, shift = _fitted(logits, truth, shifted=True)
            return cls(factor, shift)
        yes, no = truth.sum(0), (1.0 - truth).sum(0)
        alone = (yes >= ENOUGH) & (no >= ENOUGH)
        factor = torch.ones(truth.shape[1], dtype=torch.float64)
        shift = torch.zeros_like(factor)
        if bool((~alone).any()):
            common = _fitted(logits[..., ~alone], truth[:, ~alone], shifted=True)
            factor[~alone], shift[~alone] = common
        for label in alone.nonzero().flatten().tolist():
            factor[label], _ = _fitted(logits[..., label], truth[:, label], shifted=False)
        return cls(factor, shift)

    def as_json(self) -> dict[str, Any]:
        """Factors and shifts."""
        return {"factor": self.factor.tolist(), "shift": self.shift.tolist()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """A calibrator with the numbers of a file."""
        return cls(torch.tensor(values["factor"]), torch.tensor(values["shift"]))

    def __repr__(self) -> str:
        return f"LabelScaling({self.factor.numel()} labels)"


def _fitted(logits: Tensor, truth: Tensor, *, shifted: bool) -> tuple[Tensor, Tensor]:
    """The factor, kept above 0 by its logarithm, and the shift of least NLL of the mean."""
    numbers = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([numbers], max_iter=STEPS, line_search_fn="strong_wolfe")
    # Platt's targets: a share of a count in place of 0 and 1, so that nothing becomes certain
    yes, no = float(truth.sum()), float((1.0 - truth).sum())
    soft = torch.where(truth > 0.5, (yes + 1.0) / (yes + 2.0), 1.0 / (no + 2.0))

    def closure() -> Tensor:
        optimizer.zero_grad()
        corrected = logits * numbers[0].exp() + (numbers[1] if shifted else 0.0)
        chance = torch.sigmoid(corrected).mean(0).clamp(1e-12, 1.0 - 1e-12)
        loss = -(soft * chance.log() + (1.0 - soft) * (-chance).log1p()).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    with torch.enable_grad():
        optimizer.step(closure)  # type: ignore[no-untyped-call]
    found = numbers.detach()
    return found[0].exp(), found[1] if shifted else torch.zeros((), dtype=torch.float64)
