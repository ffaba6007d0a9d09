"""`Executor`: takes independent jobs and yields their results as they come, in any order."""

from __future__ import annotations

import pickle
import queue
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
LOOK_AGAIN = 0.5
"""The largest number of seconds between two events; also the least between two of progress."""

Tell = Callable[[int], None]


@dataclass(frozen=True)
class Job:
    """A call that depends on no other: ``function(*arguments, tell)``.

    Function and arguments are pickled for the processes that this one starts, and come back as
    events: no pickle is read from a file that others may write. The function is one of a module.
    It may call ``tell`` with a number, such as that of the epoch, as often as it likes.
    """

    key: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Event:
    """What has become of a job.

    ``value`` is the number that was told, the result, or the text of the error.
    """

    key: str
    what: Literal["started", "progressed", "finished", "failed"]
    value: Any = None
    seconds: float = 0.0
    """How long a finished job took."""


class Executor(ABC):
    """Base class of executors. Use it as a context, which ends whatever was started."""

    same_machine = False
    """Whether jobs are done on this machine, so that they see the same files."""

    @abstractmethod
    def run(self, jobs: Iterable[Job], total: int) -> Generator[Event | None]:
        """Do all jobs; yields what happens to them, and None from time to time.

        A job is taken from ``jobs`` only when there is room for it. Every job that is taken ends
        with exactly one event "finished" or "failed". To stop, close the iterator.

        Args:
            jobs: each with a key of its own.
            total: how many will come at most.
        """

    @abstractmethod
    def at_once(self) -> int:
        """How many jobs are done at once."""

    def close(self) -> None:  # noqa: B027 - one that starts nothing has nothing to end
        """End whatever was started."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def done(job: Job, tell: Tell) -> Event:
    """Do a job in this thread: the event at its end. Progress is told not too often."""
    start, told = time.monotonic(), 0.0

    def seldom(number: int) -> None:
        nonlocal told
        if time.monotonic() - told >= LOOK_AGAIN:
            told = time.monotonic()
            tell(number)

    try:
        result = job.function(*job.arguments, seldom)
    except (ValueError, OSError) as error:  # such as data that cannot be had
        return Event(job.key, "failed", str(error))
    except Exception:
        return Event(job.key, "failed", traceback.format_exc())
    return Event(job.key, "finished", result, time.monotonic() - start)


def events_of(key: str, pickled: bytes) -> Iterator[Event]:
    """Do a job in a thread of its own: its events as they come, for where they are streamed."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def work() -> None:
        try:
            job: Job = pickle.loads(pickled)  # noqa: S301 - by the process that started this one
        except Exception:
            events.put(Event(key, "failed", traceback.format_exc()))
            return
        events.put(done(job, lambda number: events.put(Event(key, "progressed", number))))

    yield Event(key, "started")
    threading.Thread(target=work, daemon=True).start()
    while True:
        event = events.get()
        yield event
        if event.what in {"finished", "failed"}:
            return
