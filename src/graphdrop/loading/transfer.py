"""`move_batches`: a batch travels to the device while the step before it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import torch

Batch = TypeVar("Batch")


def move_batches(
    batches: Iterable[Batch], device: torch.device, move: Callable[[Batch], Batch]
) -> Iterator[Batch]:
    """Move batches to a device, in their order.

    On a GPU the next batch is sampled and copied on a stream of its own while the device computes
    the step of the present one. Elsewhere each is moved when its turn comes.

    Args:
        batches: made one by one.
        device: where `move` puts them.
        move: copies a batch, from pinned memory and without blocking.

    Example:
        >>> batches = [torch.ones(2), torch.ones(3)]
        >>> [len(one) for one in move_batches(batches, torch.device("cpu"), torch.Tensor.cpu)]
        [2, 3]
    """
    if device.type != "cuda":
        yield from map(move, batches)
        return
    copies = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    present: list[Batch] = []
    for batch in batches:
        # memory of a batch that is gone is taken again: what reads it must have been computed
        copies.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(copies):
            following = move(batch)
        yield from present
        torch.cuda.current_stream(device).wait_stream(copies)
        present = [following]
    yield from present
