"""Divergence: the terms of the loss, gradients, weights and predictions must be finite."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from graphdrop.inference.predictive import NotFiniteError

WHAT_TO_TRY = {
    "nll": "lower train.learning_rate, or divide the features by their sum (data.features = row)",
    "kl": "lower train.learning_rate or objective.kl_weight, or raise objective.warmup",
    "l2": "lower train.learning_rate or objective.l2",
    "agree": "lower train.learning_rate or objective.agree",
}
"""What to do, by the term of the loss that is not finite."""
SLOWER = "lower train.learning_rate"


class DivergedError(ValueError):
    """Training diverged: a number became infinite or NaN.

    Args:
        problem: which number.
        advice: what to try.
    """

    epoch: int | None = None
    """The epoch in which it happened; the loop adds it."""
    checkpoint: Path | None = None
    """The last good checkpoint; a run in a folder adds it."""

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(problem, advice)
        self.problem, self.advice = problem, advice

    def __str__(self) -> str:
        where = "" if self.epoch is None else f" in epoch {self.epoch}"
        left = "" if self.checkpoint is None else f"; the last good checkpoint is {self.checkpoint}"
        return f"training diverged{where}: {self.problem}. What to try: {self.advice}{left}"


def check_terms(terms: Mapping[str, float]) -> None:
    """Raise if a term of the loss is not finite."""
    for name, value in terms.items():
        if not math.isfinite(value):
            raise DivergedError(f"the term {name} is {value}", WHAT_TO_TRY[name])


def check_gradients(model: nn.Module) -> None:
    """Raise if a gradient is not finite, before the optimizer uses it."""
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    if not torch.isfinite(get_total_norm(list(gradients.values()))):
        check_tensors(gradients, "the gradient of")
        raise DivergedError("the gradient overflows", SLOWER)


def check_tensors(tensors: Mapping[str, Tensor], what: str = "") -> None:
    """Raise if a tensor is not finite; the error names it by ``what`` and its key."""
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise DivergedError(f"{what} {name} is not finite".strip(), SLOWER)


@contextmanager
def explain_divergence(model: nn.Module) -> Iterator[None]:
    """Context in which an error that a non-finite number caused becomes a ``DivergedError``.

    Other errors, for example of a user's own loss, are not changed.
    """
    try:
        yield
    except NotFiniteError as error:
        raise DivergedError(f"{error}", WHAT_TO_TRY["nll"]) from error
    except (ArithmeticError, ValueError) as error:
        try:
            check_tensors(model.state_dict())
        except DivergedError as cause:
            raise cause from error
        if isinstance(error, FloatingPointError):
            raise DivergedError(f"{error}", WHAT_TO_TRY["kl"]) from error
        raise
