"""``State``: what changes while a run trains. A checkpoint holds it, and a resumed run loads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from graphdrop.train.model_file import load_state
from graphdrop.train.records import DamagedError
from graphdrop.train.run import Run
from graphdrop.train.selection import Selection

MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


class WeightEMA:
    """Exponential moving average of all parameters of a network, with bias correction.

    Args:
        model: the network; its training is not affected.
        decay: the decay per step, in (0, 1): what the old mean keeps of its weight at every step.
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


@dataclass
class State:
    """Where a run stands after some epochs."""

    model: nn.Module
    """The network: its weights, which change, and a buffer that counts the masks it has drawn."""
    optimizer: torch.optim.Optimizer
    average: WeightEMA | None
    """The exponential moving average of the weights; ``None`` if the settings ask for none."""
    epoch: int = 0
    """The number of epochs that are done."""
    finished: bool = False
    selection: Selection = field(default_factory=Selection)
    """The best evaluation so far."""
    best: dict[str, Tensor] = field(default_factory=dict)
    """The state of the network at the best evaluation; empty before the first one."""
    seconds: float = 0.0
    """The time that training has taken, without the epochs that a killed run lost."""

    @classmethod
    def initial(cls, run: Run, make_optimizer: MakeOptimizer | None = None) -> State:
        """The state of a run before its first epoch; by default with Adam."""
        rate, decay = run.config.train.learning_rate, run.config.train.average
        statistics = (getattr(module, "running_mean", None) for module in run.model.modules())
        if decay and any(mean is not None for mean in statistics):
            raise ValueError(
                "train.average is set, but the model has batch normalization, whose statistics "
                "would be those of other weights than the mean: leave it at 0"
            )
        make = make_optimizer or (lambda weights: torch.optim.Adam(weights, rate, fused=True))
        average = WeightEMA(run.model, decay) if decay else None
        return cls(run.model, make(run.model.parameters()), average)

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """The weights, the best weights, the moments of the optimizer and the average."""
        moments = {
            f"{i}/{name}": value
            for i, values in self.optimizer.state_dict()["state"].items()
            for name, value in values.items()
            if torch.is_tensor(value)
        }
        return {
            "model": self.model.state_dict(),
            "best": self.best,
            "optimizer": moments,
            "average": {} if self.average is None else self.average.state_dict(),
        }

    def counts(self) -> dict[str, Any]:
        """All that is not a tensor, as JSON values."""
        return {
            "epoch": self.epoch,
            "finished": self.finished,
            "selection": asdict(self.selection),
            "seconds": round(self.seconds, 3),
        }

    def load(self, tensors: Mapping[str, Mapping[str, Tensor]], counts: Mapping[str, Any]) -> None:
        """Continue from what ``tensors`` and ``counts`` returned for another state of this run."""
        load_state(self.model, tensors.get("model", {}))
        self.best = dict(tensors.get("best", {}))
        self._load_moments(tensors.get("optimizer", {}))
        if self.average is not None:
            self.average.load_state_dict(tensors.get("average", {}))
        self.epoch, self.finished = counts["epoch"], counts["finished"]
        self.selection, self.seconds = Selection(**counts["selection"]), counts["seconds"]

    def _load_moments(self, tensors: Mapping[str, Tensor]) -> None:
        moments: dict[int, dict[str, Tensor]] = {}
        shapes = [p.shape for group in self.optimizer.param_groups for p in group["params"]]
        try:
            for key, value in tensors.items():
                i, name = key.split("/", 1)
                if value.dim() and value.shape != shapes[int(i)]:
                    raise ValueError(f"the moments of parameter {i} have another shape")
                moments.setdefault(int(i), {})[name] = value
            self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
        except (ValueError, IndexError, KeyError) as error:
            raise DamagedError(
                f"the checkpoint's moments are not those of this optimizer ({error}): start anew "
                "in another folder"
            ) from error
