"""`run_cells`: make missing runs in worker processes, each only once.

Each worker claims a run, makes it and stores its record, so that finished runs are kept if the main
process ends. Workers end with the main process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from graphdrop.config import Config
from graphdrop.experiments.display import Display, Silent
from graphdrop.experiments.keys import run_key
from graphdrop.experiments.single_run import run_config
from graphdrop.experiments.store import RUNS, Record, Store

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_LOOK_AGAIN = 0.5
"""Seconds between two looks at the screen, and at runs that another reproduction is making."""


@dataclass(frozen=True)
class _Task:
    key: str
    config: Config
    watch: bool
    blind: bool = False


@dataclass(eq=False)
class _Worker:
    process: SpawnProcess
    connection: Connection[Any, Any]
    task: _Task | None = None
    since: float = field(default_factory=time.monotonic)


def run_cells(
    configs: Sequence[Config],
    store: Store,
    jobs: int = 1,
    *,
    watch: bool = False,
    blind: bool = False,
    display: Display | None = None,
) -> list[Record]:
    """The records of runs with these settings, in this order; missing runs are made.

    Args:
        configs: the settings of each run.
        store: where finished runs are, and are added.
        jobs: how many processes make runs; if several, each has one thread.
        watch: also follow the total variation of hidden layers.
        blind: measure nothing on test nodes, for a search; such runs need a store of their own.
        display: how the work is shown; by default not at all.
    """
    if jobs < 1:
        raise ValueError(f"jobs is {jobs}: give the number of processes, at least 1")
    keys = [run_key(config, watch=watch) for config in configs]
    tasks = {
        key: _Task(key, config, watch, blind) for key, config in zip(keys, configs, strict=True)
    }
    known = store.records()
    missing = deque(task for key, task in tasks.items() if key not in known)
    display = display or Silent()
    if missing:
        with _workers(min(jobs, len(missing)), store) as workers, display.showing():
            _share_out(missing, workers, store, display)
    records = store.records()
    return [records[key] for key in keys]


def _share_out(
    missing: deque[_Task], workers: Sequence[_Worker], store: Store, display: Display
) -> None:
    elsewhere: dict[str, tuple[float, _Task]] = {}
    while missing or elsewhere or any(worker.task for worker in workers):
        now = time.monotonic()
        for worker in workers:
            if worker.task is None and missing:
                worker.task, worker.since = missing.popleft(), now
                worker.connection.send(worker.task)
                display.started(worker.task.key)
        for connection in wait([worker.connection for worker in workers], _LOOK_AGAIN):
            worker = next(one for one in workers if one.connection is connection)
            task, (what, detail) = worker.task, _receive(worker)
            assert task is not None  # noqa: S101 - only a worker with a task says anything
            if what == "epoch":
                display.progressed(task.key, detail)
                continue
            worker.task = None
            if what == "failed":
                raise RuntimeError(f"the run of {_named(task.config)} failed: {detail}")
            if what == "busy":
                elsewhere[task.key] = now, task
                display.postponed(task.key)
            else:
                display.finished(task.key, store.records()[task.key])
        for key, (since, task) in list(elsewhere.items()):
            if key in store.records():
                display.finished(key, store.records()[key])
                del elsewhere[key]
            elif not missing and now - since > _LOOK_AGAIN:
                # Its process may have been killed: ask for the claim again.
                missing.append(task)
                del elsewhere[key]
        display.refresh()


def _receive(worker: _Worker) -> tuple[str, Any]:
    try:
        what, detail = worker.connection.recv()
    except (EOFError, ConnectionError):
        worker.process.join()
        task = worker.task
        doing = _named(task.config) if task else "nothing"
        raise RuntimeError(
            f"a worker process ended by itself with exit code {worker.process.exitcode}, while "
            f"making {doing}; if memory ran out, give fewer --jobs. What is finished is kept: "
            "the same command goes on from there"
        ) from None
    return what, detail


def _named(config: Config) -> str:
    model = config.model
    return f"{model.method}, {config.data.dataset}, {model.layers} layers, seed {config.seed}"


@contextmanager
def _workers(count: int, store: Store) -> Iterator[list[_Worker]]:
    """Context with this many worker processes, which end with it."""
    context = multiprocessing.get_context("spawn")
    workers = []
    with _one_thread_each(count > 1):
        for _ in range(count):
            ours, theirs = context.Pipe()
            where = (theirs, store.folder, store.path.name)
            process = context.Process(target=_work, args=where, daemon=True)
            process.start()
            theirs.close()
            workers.append(_Worker(process, ours))
    try:
        yield workers
    finally:
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.join()
            worker.connection.close()


@contextmanager
def _one_thread_each(wanted: bool) -> Iterator[None]:
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


def _work(connection: Connection[Any, Any], folder: Path, file: str = RUNS) -> None:
    """The life of a worker: make the runs it is given until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    store = Store(folder, file)
    told = 0.0

    def tell(epoch: int) -> None:
        nonlocal told
        if time.monotonic() - told >= _LOOK_AGAIN:
            told = time.monotonic()
            connection.send(("epoch", epoch))

    while True:
        task: _Task = connection.recv()
        with store.claim(task.key) as mine:
            if not mine:
                connection.send(("busy", None))
                continue
            if task.key not in store.records():
                try:
                    options = {"watch": task.watch, "blind": task.blind}
                    store.append(run_config(task.config, **options, on_epoch=tell))
                except (ValueError, OSError) as error:  # such as data that cannot be had
                    connection.send(("failed", str(error)))
                    continue
                except Exception:
                    connection.send(("failed", traceback.format_exc()))
                    continue
        connection.send(("done", None))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
