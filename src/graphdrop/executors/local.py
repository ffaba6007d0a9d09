"""`LocalExecutor`: jobs in processes of this machine, which end with the main process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from graphdrop.executors.jobs import LOOK_AGAIN, THREAD_VARIABLES, Event, Executor, Job, done


@dataclass(eq=False)
class _Worker:
    process: SpawnProcess
    connection: Connection[Any, Any]
    job: Job | None = None


class LocalExecutor(Executor):
    """Jobs in processes of this machine.

    Args:
        jobs: how many at once; if several, each has one thread.
    """

    same_machine = True

    def __init__(self, jobs: int = 1) -> None:
        if jobs < 1:
            raise ValueError(f"jobs is {jobs}: give the number of processes, at least 1")
        self.jobs = jobs

    def at_once(self) -> int:
        """The number of processes."""
        return self.jobs

    def run(self, jobs: Iterable[Job], total: int) -> Generator[Event | None]:
        """Do all jobs; a process that is killed is an error."""
        source = iter(jobs)
        workers: list[_Worker] = []
        most = min(self.jobs, total)
        try:
            while True:
                for job in _as_many(source, most - sum(one.job is not None for one in workers)):
                    worker = next((one for one in workers if one.job is None), None)
                    if worker is None:
                        worker = _started(one_thread=most > 1)
                        workers.append(worker)
                    worker.job = job
                    worker.connection.send(job)
                    yield Event(job.key, "started")
                busy = {one.connection: one for one in workers if one.job is not None}
                if not busy:
                    return
                for connection in wait(list(busy), LOOK_AGAIN):
                    worker = next(one for one in workers if one.connection is connection)
                    event = _received(worker)
                    if event.what != "progressed":
                        worker.job = None
                    yield event
                yield None
        finally:
            _end(workers)


def _as_many(source: Iterator[Job], count: int) -> Iterator[Job]:
    for _, job in zip(range(count), source, strict=False):
        yield job


def _started(*, one_thread: bool) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs,), daemon=True)
    with one_thread_each(one_thread):
        process.start()
    theirs.close()
    return _Worker(process, ours)


def _received(worker: _Worker) -> Event:
    try:
        event: Event = worker.connection.recv()
    except (EOFError, ConnectionError):
        worker.process.join()
        key = worker.job.key if worker.job else ""
        return Event(
            key,
            "failed",
            f"its worker process ended by itself with exit code {worker.process.exitcode}; if "
            "memory ran out, give fewer --jobs. What is finished is kept: the same command goes "
            "on from there",
        )
    return event


def _end(workers: list[_Worker]) -> None:
    for worker in workers:
        worker.process.kill()
    for worker in workers:
        worker.process.join()
        worker.connection.close()


@contextmanager
def one_thread_each(wanted: bool) -> Iterator[None]:
    """Context in which started processes use one thread."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    if wanted:
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _work(connection: Connection[Any, Any]) -> None:
    """The life of a worker: do the jobs it is given until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        job: Job = connection.recv()
        connection.send(done(job, partial(_tell, connection, job.key)))


def _tell(connection: Connection[Any, Any], key: str, number: int) -> None:
    connection.send(Event(key, "progressed", number))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
