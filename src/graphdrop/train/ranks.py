"""`Ranks`: the processes of one run that `torchrun` started, and what they tell one another.

Every rank has the whole model and takes its share of the batches. Gradients are summed over the
ranks before each step, so that all take the same step. The first rank evaluates, selects and
writes; the others learn what it decided.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TypeVar

import torch
from torch import distributed, nn

T = TypeVar("T")


class Ranks:
    """The ranks of this run; a single process is one rank and sends nothing.

    Example:
        >>> ranks = Ranks()
        >>> ranks.number, ranks.size, ranks.sum([1.0, 2.0])
        (0, 1, [1.0, 2.0])
    """

    def __init__(self) -> None:
        several = distributed.is_available() and distributed.is_initialized()
        self.number = distributed.get_rank() if several else 0
        self.size = distributed.get_world_size() if several else 1

    @property
    def first(self) -> bool:
        """Whether this is the rank that evaluates and writes."""
        return self.number == 0

    def sum(self, values: Iterable[float]) -> list[float]:
        """Numbers, each summed over all ranks."""
        own = list(values)
        if self.size == 1:
            return own
        total = torch.tensor(own, dtype=torch.float64)
        distributed.all_reduce(total)
        return [float(value) for value in total]

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace every gradient by its sum over all ranks."""
        if self.size == 1:
            return
        known = [p for p in parameters if p.requires_grad]
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in known]
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        distributed.all_reduce(flat)
        first = 0
        for parameter, grad in zip(known, grads, strict=True):
            part = flat[first : first + grad.numel()]
            parameter.grad = part.view_as(parameter).clone()
            first += grad.numel()

    @torch.no_grad()
    def average_buffers(self, module: nn.Module) -> None:
        """Replace running statistics, which every rank keeps of its own batches, by their mean."""
        if self.size == 1:
            return
        for buffer in module.buffers():
            if buffer.is_floating_point():
                distributed.all_reduce(buffer)
                buffer.div_(self.size)

    def tell(self, value: T) -> T:
        """What the first rank passes, on all ranks."""
        if self.size == 1:
            return value
        box: list[Any] = [value if self.first else None]
        distributed.broadcast_object_list(box)
        told: T = box[0]
        return told

    def any(self, here: bool) -> bool:
        """Whether this is so on some rank."""
        return self.sum([float(here)])[0] > 0.0


def join() -> Ranks:
    """The ranks of this process, which `torchrun` has told of the others by its environment."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size > 1 and distributed.is_available() and not distributed.is_initialized():
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return Ranks()


def leave() -> None:
    """End what `join` began."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def is_restart() -> bool:
    """Whether `torchrun` started this process again, after a rank had failed."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
