"""`Executor` runs independent jobs; `LocalExecutor` does so in processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any, Self

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

Outcome = tuple[Any, str]
"""The result of a job, or the text of its error."""


@dataclass(frozen=True, eq=False)
class Job:
    """A call that depends on no other: ``function(*arguments)``.

    Both are pickled for the process that runs the job; the function is one of a module.

    Args:
        key: identifies the job among those of an executor.
        name: what an error calls the job, such as "the run of seed 3".
        function: what to call.
        arguments: what to call it with.
    """

    key: str
    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()


class Executor(ABC):
    """Base class of executors. Use it as a context, which ends whatever was started."""

    same_machine = False
    """Whether jobs run on this machine, so that they see the same files."""

    @property
    @abstractmethod
    def at_once(self) -> int:
        """How many jobs run at once."""

    @abstractmethod
    def submit(self, job: Job) -> Future[Outcome]:
        """Start a job."""

    @abstractmethod
    def close(self) -> None:
        """End all jobs and processes that were started."""

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[str, Any]]:
        """Run all jobs; yields the key and the result of each when it ends, in any order.

        A job is taken from ``jobs`` only when there is room for it. A job that fails is a
        ``ValueError`` with its name and the reason.
        """
        source, running = iter(jobs), dict[Future[Outcome], Job]()
        while True:
            for job in islice(source, max(0, self.at_once - len(running))):
                running[self.submit(job)] = job
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                try:
                    result, failure = future.result()
                except Exception as error:
                    raise ValueError(
                        f"{job.name} failed: its worker process was lost ({error}). If memory ran "
                        "out, give fewer --jobs. What is finished is kept: the same command goes "
                        "on from there"
                    ) from error
                if failure:
                    raise ValueError(f"{job.name} failed: {failure}")
                yield job.key, result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LocalExecutor(Executor):
    """Runs jobs in processes of this machine, which end when this process ends.

    Args:
        jobs: how many processes; if several, each has one thread.
    """

    same_machine = True

    def __init__(self, jobs: int = 1) -> None:
        if jobs < 1:
            raise ValueError(f"jobs is {jobs}; it takes a number of processes of 1 or more.")
        self._jobs = jobs
        self._pool: ProcessPoolExecutor | None = None

    @property
    def at_once(self) -> int:
        """The number of processes."""
        return self._jobs

    def submit(self, job: Job) -> Future[Outcome]:
        """Start a job, in a new process as long as there are fewer than may be."""
        if self._pool is None:
            # Nobody writes into this pipe: its other end closes when this process ends or says so.
            theirs, self._alive = multiprocessing.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(
                self._jobs,
                multiprocessing.get_context("spawn"),
                initializer=_start_worker,
                initargs=(theirs,),
            )
        if self._jobs == 1:
            return self._pool.submit(attempt, job)
        # A process reads these variables once, when it starts.
        former = {name: os.environ.get(name) for name in THREAD_VARIABLES}
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
        try:
            return self._pool.submit(attempt, job)
        finally:
            for name, value in former.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        if self._pool is not None:
            self._alive.close()
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


def attempt(job: Job) -> Outcome:
    """Run a job in this process."""
    try:
        return job.function(*job.arguments), ""
    except (ValueError, OSError) as error:  # such as data that cannot be had
        return None, str(error) or type(error).__name__
    except Exception:
        return None, traceback.format_exc()


def _start_worker(alive: Connection[Any, Any]) -> None:
    """Prepare a worker process: it leaves Ctrl-C to its parent and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def end() -> None:
        with suppress(EOFError, OSError):
            alive.recv_bytes()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
