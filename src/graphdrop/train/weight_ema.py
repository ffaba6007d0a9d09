"""Exponential moving average (EMA) of the weights of a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightEMA:
    """Exponential moving average of all parameters of a network, with bias correction.

    Args:
        model: the network; its training is not affected.
        decay: the decay per step, in (0, 1): the weight of a step relative to the next one.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._parameters = dict(model.named_parameters())
        self._decay = decay
        self._mean: dict[str, Tensor] = {}

    @torch.no_grad()
    def update(self, steps: int) -> None:
        """Update with the current parameters; ``steps`` is the number of steps done."""
        share = (1.0 - self._decay) / (1.0 - self._decay**steps)
        for name, value in self._parameters.items():
            if name in self._mean:
                self._mean[name].lerp_(value, share)
            else:
                self._mean[name] = value.detach().clone()

    @contextmanager
    def average_parameters(self) -> Iterator[None]:
        """Context in which the network has the averaged parameters, if there are any."""
        own = {name: self._parameters[name].data for name in self._mean}
        try:
            for name, mean in self._mean.items():
                self._parameters[name].data = mean
            yield
        finally:
            for name, value in own.items():
                self._parameters[name].data = value

    def state_dict(self) -> dict[str, Tensor]:
        """The averages by the name of the parameter."""
        return self._mean

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Load averages that ``state_dict`` returned."""
        self._mean = {name: mean.clone() for name, mean in state.items()}


def check_ema_buffers(model: nn.Module) -> None:
    """Raise if the model has batch statistics, which would not belong to the averaged weights."""
    statistics = (getattr(module, "running_mean", None) for module in model.modules())
    if any(one is not None for one in statistics):
        raise ValueError(
            "train.average is set, but the model has batch normalization, whose statistics "
            "would be those of other weights than the mean: leave it at 0"
        )
