"""`run_cells`: make missing runs with an executor, each only once.

This process alone writes records. It claims a run when the run is handed out, so that several
processes can share a folder of results.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from experiments.display import Display
from experiments.keys import run_key
from experiments.single_run import checked_run, data_fingerprint
from experiments.store import Claims, Record, Store
from graphdrop.config import Config
from graphdrop.executors import Executor, Job, LocalExecutor

_LOOK_AGAIN = 0.5
"""Seconds between two looks at runs that another reproduction is making."""


@dataclass(frozen=True)
class _Run:
    key: str
    config: Config
    watch: bool
    blind: bool = False


@dataclass
class _Making:
    """The runs that are to be made, and those that another process is making."""

    missing: deque[_Run]
    store: Store
    claims: Claims
    display: Display
    executor: Executor
    device: str = "cpu"
    elsewhere: dict[str, _Run] = field(default_factory=dict)

    def jobs(self) -> Iterator[Job]:
        """Jobs of the runs that can be claimed; each is claimed when it is taken."""
        while self.missing:
            run = self.missing.popleft()
            if not self.claims.take(run.key):
                self.elsewhere[run.key] = run
                continue
            if run.key in self.store.records():  # made by another process in the meantime
                self.claims.give_back(run.key)
                self.display.finished(run.key)
                continue
            # Elsewhere, data of the same name may be other data.
            data = None
            if not self.executor.same_machine:
                data = data_fingerprint(run.config)
            options = {"watch": run.watch, "blind": run.blind, "device": self.device}
            model = run.config.model
            name = (
                f"the run of {model.method}, {run.config.data.dataset}, {model.layers} layers, "
                f"seed {run.config.seed}"
            )
            yield Job(run.key, name, checked_run, (run.config, options, run.key, data))

    def look_elsewhere(self) -> None:
        """Those that others have finished are done; those that nobody makes are missing again."""
        records = self.store.records()
        for key, run in list(self.elsewhere.items()):
            if key in records:
                self.display.finished(key)
                del self.elsewhere[key]
            elif self.claims.take(key):  # its process may have been killed
                self.claims.give_back(key)
                self.missing.append(run)
                del self.elsewhere[key]


def run_cells(
    configs: Sequence[Config],
    store: Store,
    jobs: int = 1,
    *,
    watch: bool = False,
    blind: bool = False,
    display: Display | None = None,
    executor: Executor | None = None,
    device: str = "cpu",
) -> list[Record]:
    """The records of runs with these settings, in this order; missing runs are made.

    Args:
        configs: the settings of each run.
        store: where finished runs are, and are added.
        jobs: how many processes make runs, if no executor is given; if several, each has one
            thread.
        watch: also follow the total variation of hidden layers.
        blind: measure nothing on test nodes, for a search; such runs need a store of their own.
        display: how the work is shown; by default not at all.
        executor: where runs are made; by default in processes of this machine.
        device: on which device each is computed, as `Trainer` takes it.
    """
    keys = [run_key(config, watch=watch) for config in configs]
    runs = {key: _Run(key, config, watch, blind) for key, config in zip(keys, configs, strict=True)}
    known = store.records()
    missing = deque(run for key, run in runs.items() if key not in known)
    display = display or Display()
    if missing:
        own = nullcontext(executor) if executor is not None else LocalExecutor(jobs)
        with own as where, store.claims() as claims, display.showing(known):
            _make(_Making(missing, store, claims, display, where, device))
    records = store.records()
    return [records[key] for key in keys]


def _make(making: _Making) -> None:
    while making.missing or making.elsewhere:
        for key, record in making.executor.run(making.jobs()):
            making.store.append(record)
            making.claims.give_back(key)
            making.display.finished(key)
        making.look_elsewhere()
        if making.elsewhere and not making.missing:
            time.sleep(_LOOK_AGAIN)
