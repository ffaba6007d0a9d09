"""`Ranks`: the processes of one run that `torchrun` started, and what they send one another.

Every rank has the whole model and takes its share of the batches. Gradients are summed over the
ranks before each step, so that all take the same step. The first rank evaluates, selects and
writes; the others learn what it decided.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import distributed, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from graphdrop.io.torchrun import restarts, world_size

T = TypeVar("T")

WAIT = timedelta(days=1)
"""How long ranks wait for one another; `torchrun` sees to ranks that have died."""


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
        for parameter in parameters:
            if parameter.requires_grad:
                if parameter.grad is None:  # on a rank whose batch did not use it
                    parameter.grad = torch.zeros_like(parameter)
                distributed.all_reduce(parameter.grad)

    @torch.no_grad()
    def average_buffers(self, module: nn.Module) -> None:
        """Replace running statistics, which every rank keeps of its own batches, by their mean."""
        if self.size == 1:
            return
        for buffer in module.buffers():
            if buffer.is_floating_point():
                distributed.all_reduce(buffer)
                buffer.div_(self.size)

    def broadcast(self, value: T) -> T:
        """The value that the first rank passes, on all ranks."""
        if self.size == 1:
            return value
        box: list[Any] = [value if self.first else None]
        distributed.broadcast_object_list(box)
        received: T = box[0]
        return received

    def any(self, here: bool) -> bool:
        """Whether this is so on some rank."""
        return self.sum([float(here)])[0] > 0.0


@contextmanager
def join_ranks() -> Iterator[Ranks]:
    """Context in which a process that `torchrun` started knows the other ranks.

    All ranks but the first print nothing on stdout.
    """
    if world_size() < 2 or not distributed.is_available():
        yield Ranks()
        return
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    store, number, size = next(rendezvous("env://", timeout=WAIT))
    # torchrun keeps the store of ranks that it restarts: their addresses must not be read again
    own = PrefixStore(f"restart {restarts()}", store)
    distributed.init_process_group(backend, store=own, rank=number, world_size=size, timeout=WAIT)
    try:
        ranks = Ranks()
        with ExitStack() as stack:
            if not ranks.first:
                nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
                stack.enter_context(redirect_stdout(nowhere))
            yield ranks
    finally:
        distributed.destroy_process_group()
