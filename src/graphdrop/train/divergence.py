"""Divergence: a loss term, a gradient, a parameter or a prediction that is no longer a number."""

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
"""By the term of the loss that is not finite."""
SLOWER = "lower train.learning_rate"


def check_terms(trainer: Trainer, terms: Mapping[str, float]) -> None:
    """Refuse a loss with a term that is not finite."""
    for name, value in terms.items():
        if not math.isfinite(value):
            raise diverged(trainer, f"the term {name} is {value}", WHAT_TO_TRY[name])


def check_gradients(trainer: Trainer) -> None:
    """Refuse gradients that are not finite, before they reach the parameters."""
    parameters = trainer.model.named_parameters()
    gradients = {name: p.grad for name, p in parameters if p.grad is not None}
    if not torch.isfinite(get_total_norm(list(gradients.values()))):
        check_tensors(trainer, gradients, "the gradient of")
        raise diverged(trainer, "the gradient overflows", SLOWER)


def check_tensors(trainer: Trainer, tensors: Mapping[str, Tensor], what: str = "") -> None:
    """Refuse tensors of which one is not finite; they are called `what` and their name."""
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise diverged(trainer, f"{what} {name} is not finite".strip(), SLOWER)


@contextmanager
def watched(trainer: Trainer) -> Iterator[None]:
    """Within it an error that a number that is not finite has caused is a `DivergedError`.

    Every other error passes as it is: a loss or a task of one's own may raise what it likes.
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
        raise


def diverged(trainer: Trainer, problem: str, advice: str) -> DivergedError:
    """The error that says in which epoch what is not finite, and what is left of the run."""
    left = ""
    if trainer.folder is not None and (trainer.folder / checkpoint.LAST).exists():
        left = f"; the last good checkpoint is {trainer.folder / checkpoint.LAST}"
    return DivergedError(
        f"training diverged in epoch {trainer.current}: {problem}. What to try: {advice}{left}"
    )
