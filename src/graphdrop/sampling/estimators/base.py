"""`Estimator`, the base class of gradient estimators, and the passes that it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Protocol

from torch import Tensor, nn

from graphdrop.kernels.sums import DrawSums


class LayerDraws(Protocol):
    """The random numbers of one layer in one forward pass."""

    @property
    def keep_logit(self) -> Tensor:
        """The keep logit that they were compared with, differentiable in the rate's parameters."""

    def sums(self) -> DrawSums:
        """Sums over the distinct draws, in the shape of ``keep_logit``."""


class Run(Protocol):
    """A forward pass as a function; every call uses the same random numbers in every layer."""

    def __call__(self, antithetic: bool) -> tuple[Tensor, Sequence[LayerDraws]]:
        """The mean NLL and the draws of each layer; ``antithetic`` replaces u by 1 - u."""


class Estimator(nn.Module, ABC):
    """Estimates the gradient of the expected loss with respect to weights and rates.

    An estimator computes the gradient with respect to the keep logit ``phi`` of a rate; autograd
    continues from there to the parameters of the rate. It does not depend on the graph: it runs
    forward passes and multiplies their losses by sums over the random draws.
    """

    temperature: float | None = None
    """The temperature of relaxed masks in training; ``None`` for hard masks."""

    @abstractmethod
    def loss(self, run: Run) -> Tensor:
        """A scalar loss whose ``backward()`` gives the estimated gradients."""


def learned(layers: Sequence[LayerDraws]) -> list[LayerDraws]:
    """The layers whose rate requires a gradient."""
    return [layer for layer in layers if layer.keep_logit.requires_grad]


def with_gradients(loss: Tensor, gradients: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """The same loss, with the given gradient added for each pair ``(logit, gradient)``.

    .. math:: f + \\sum_l \\big( g_l \\phi_l - [g_l \\phi_l] \\big)

    where brackets stop gradients. Gradients that the loss itself has for a logit are kept.
    """
    for logit, gradient in gradients:
        term = (gradient.detach().to(logit.dtype).to(logit.device) * logit).sum()
        loss = loss + (term - term.detach()).to(loss.dtype)
    return loss
