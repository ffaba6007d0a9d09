"""What every estimator answers: a loss whose backward pass gives weights and rates a gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Protocol

from torch import Tensor, nn

from graphdrop.kernels.sums import DrawSums


class LayerDraws(Protocol):
    """The draws of one layer in one pass."""

    @property
    def keep_logit(self) -> Tensor:
        """The logit that they were compared with, attached to the rate's parameters."""

    def sums(self) -> DrawSums:
        """Sums over the distinct draws, in the shape of ``keep_logit``."""


class Run(Protocol):
    """One forward pass; every call draws the same numbers in every layer."""

    def __call__(self, antithetic: bool) -> tuple[Tensor, Sequence[LayerDraws]]:
        """The mean NLL and the draws of each layer; ``antithetic`` turns u into 1 - u."""


class Estimator(nn.Module, ABC):
    """Estimates the gradient of the expected loss with respect to weights and rates.

    A rate enters by its keep logit ``phi``; from there autograd goes on to whatever the rate is
    made of. Estimators know nothing of graphs: they run passes, and weigh the losses with sums
    over the draws.
    """

    temperature: float | None = None
    """Of the masks that training draws; ``None`` for hard ones."""

    @abstractmethod
    def loss(self, run: Run) -> Tensor:
        """The loss of a pass; ``backward()`` brings the estimated gradients."""


def learned(layers: Sequence[LayerDraws]) -> list[LayerDraws]:
    """The layers whose rate takes a gradient; the others cost nothing."""
    return [layer for layer in layers if layer.keep_logit.requires_grad]


def with_gradients(loss: Tensor, gradients: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """The loss, unchanged, with a gradient given by hand for each ``(logit, gradient)``.

    .. math:: f + \\sum_l \\big( g_l \\phi_l - [g_l \\phi_l] \\big)

    where brackets stop gradients. What the loss itself passes to a logit is kept.
    """
    for logit, gradient in gradients:
        term = (gradient.detach().to(logit.dtype) * logit).sum()
        loss = loss + (term - term.detach()).to(loss.dtype)
    return loss
