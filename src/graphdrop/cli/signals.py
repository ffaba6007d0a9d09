"""Handling of SIGINT and SIGTERM: the first stops in order, the second at once."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from graphdrop.io.visible import say

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


@contextmanager
def stopping_runs() -> Iterator[None]:
    """Context for many runs, which SIGINT and SIGTERM end with exit code 128 + number."""
    received: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, signal.SIG_DFL)  # a second one ends it at once
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    except KeyboardInterrupt:
        say("Stopped. What is finished is kept: the same command goes on.", file=sys.stderr)
        raise typer.Exit(128 + (received[0] if received else signal.SIGINT)) from None
    finally:
        signal.signal(signal.SIGTERM, before)
