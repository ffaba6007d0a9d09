"""Handling of SIGINT and SIGTERM: the first stops in order, the second at once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopping_at_signals(stop: Callable[[], None]) -> Iterator[list[int]]:
    """Context in which a first SIGINT or SIGTERM calls `stop`, and a second one interrupts.

    Yields the list of signals that have come, to which a handler adds.
    """
    received: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            raise KeyboardInterrupt
        stop()

    before = {number: signal.signal(number, handle) for number in STOPPING}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
