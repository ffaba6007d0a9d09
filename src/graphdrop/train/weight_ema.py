"""The mean of a network's weights over the steps of a run, in which late steps count the most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightEMA:
    """The exponentially weighted mean of all parameters of a network.

    Args:
        model: the network; the mean is taken beside it, and training goes on as without.
        decay: what a step counts for, as a fraction of what the step after it counts for.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._parameters = dict(model.named_parameters())
        self._decay = decay
        self._mean: dict[str, Tensor] = {}

    @torch.no_grad()
    def take(self, steps: int) -> None:
        """Take in the present parameters, which are those after so many steps."""
        share = (1.0 - self._decay) / (1.0 - self._decay**steps)
        for name, value in self._parameters.items():
            if name in self._mean:
                self._mean[name].lerp_(value, share)
            else:
                self._mean[name] = value.detach().clone()

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within it the network's parameters are the means, once there are any."""
        own = {name: self._parameters[name].data for name in self._mean}
        try:
            for name, mean in self._mean.items():
                self._parameters[name].data = mean
            yield
        finally:
            for name, value in own.items():
                self._parameters[name].data = value

    def state_dict(self) -> dict[str, Tensor]:
        """The means by parameter."""
        return self._mean

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from these means."""
        self._mean = {name: mean.clone() for name, mean in state.items()}


def check_ema_buffers(model: nn.Module) -> None:
    """Refuse a model whose buffers would belong to other weights than the mean."""
    statistics = (getattr(module, "running_mean", None) for module in model.modules())
    if any(one is not None for one in statistics):
        raise ValueError(
            "train.average is set, but the model has batch normalization, whose statistics "
            "would be those of other weights than the mean: leave it at 0"
        )
