"""Checks for divergence: loss terms, gradients, parameters and predictions must be finite."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from graphdrop.inference.predictive import NotFiniteError
from graphdrop.train import checkpoint
from graphdrop.train.result import DivergedError

if TYPE_CHECKING:
    from graphdrop.train.trainer import Trainer

WHAT_TO_TRY = {
    "nll": "lower train.learning_rate, or divide the features by their sum (data.features = row)",
    "kl": "lower train.learning_rate or objective.kl_weight, or raise objective.warmup",
    "l2": "lower train.learning_rate or objective.l2",
    "agree": "lower train.learning_rate or objective.agree",
}
"""What to do, by the term of the loss that is not finite."""
SLOWER = "lower train.learning_rate"


def check_terms(trainer: Trainer, terms: Mapping[str, float]) -> None:
    """Raise if a term of the loss is not finite."""
    for name, value in terms.items():
        if not math.isfinite(value):
            raise diverged(trainer, f"the term {name} is {value}", WHAT_TO_TRY[name])


def check_gradients(trainer: Trainer) -> None:
    """Raise if a gradient is not finite, before the optimizer uses it."""
    parameters = trainer.model.named_parameters()
    gradients = {name: p.grad for name, p in parameters if p.grad is not None}
    if not torch.isfinite(get_total_norm(list(gradients.values()))):
        check_tensors(trainer, gradients, "the gradient of")
        raise diverged(trainer, "the gradient overflows", SLOWER)


def check_tensors(trainer: Trainer, tensors: Mapping[str, Tensor], what: str = "") -> None:
    """Raise if a tensor is not finite; the error names it by `what` and its key."""
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise diverged(trainer, f"{what} {name} is not finite".strip(), SLOWER)


@contextmanager
def watched(trainer: Trainer) -> Iterator[None]:
    """Context in which an error that a non-finite number caused becomes a `DivergedError`.

    Other errors, for example of a user's own loss, are not changed.
    """
    try:
        yield
    except NotFiniteError as error:
        raise diverged(trainer, f"{error}", WHAT_TO_TRY["nll"]) from error
    except (ArithmeticError, ValueError) as error:
        try:
            check_tensors(trainer, trainer.model.state_dict())
        except DivergedError as cause:
            raise cause from error
        if isinstance(error, FloatingPointError):
            raise diverged(trainer, f"{error}", WHAT_TO_TRY["kl"]) from error
        raise


def diverged(trainer: Trainer, problem: str, advice: str) -> DivergedError:
    """The error: the epoch, what is not finite, and which state of the run is kept."""
    left = ""
    if trainer.folder is not None and (trainer.folder / checkpoint.LAST).exists():
        left = f"; the last good checkpoint is {trainer.folder / checkpoint.LAST}"
    return DivergedError(
        f"training diverged in epoch {trainer.current}: {problem}. What to try: {advice}{left}"
    )
