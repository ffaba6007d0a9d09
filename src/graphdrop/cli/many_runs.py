"""Many runs of one command: where they are made, how a signal stops them, and their mean."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, stdev
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from graphdrop.cli import output
from graphdrop.config import Config
from graphdrop.io.visible import say

if TYPE_CHECKING:
    from graphdrop.executors import Executor
    from graphdrop.train.result import Result

_PANEL = "Many runs"

ExecutorName = Annotated[
    str,
    typer.Option(
        "--executor",
        help="Where runs are made: local (processes here) or ray (a Ray cluster).",
        rich_help_panel=_PANEL,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Runs made at once.",
        show_default="one per core; ray: what the cluster holds",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        help="Ray cluster to join: host:port, or auto for the one on this machine.",
        show_default="RAY_ADDRESS, or auto",
        rich_help_panel=_PANEL,
    ),
]
CpusPerRun = Annotated[
    int, typer.Option(min=1, help="ray: processors for a run.", rich_help_panel=_PANEL)
]
GpusPerRun = Annotated[
    float, typer.Option(min=0, help="ray: GPUs for a run.", rich_help_panel=_PANEL)
]
STOPPING = (signal.SIGINT, signal.SIGTERM)


def choose_executor(
    name: str, jobs: int | None, *, ray_address: str | None, cpus: int, gpus: float
) -> Executor:
    """The executor that the options ask for; nothing is started yet.

    Args:
        name: local or ray.
        jobs: how many runs at once.
        ray_address: the address of a Ray cluster.
        cpus: processors for a run.
        gpus: GPUs for a run.
    """
    from graphdrop import executors  # noqa: PLC0415 - only what is asked for is imported

    if name == "ray":
        return executors.RayExecutor(ray_address, jobs, cpus, gpus)
    if name != "local":
        raise ValueError(f"--executor is {name!r}: give one of local, ray")
    others = {"--ray-address": ray_address, "--cpus-per-run": cpus > 1, "--gpus-per-run": gpus}
    if given := [option for option, value in others.items() if value]:
        raise ValueError(
            f"{given[0]} is given, and --executor is local, which has no such option: give "
            "--executor ray"
        )
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return executors.LocalExecutor(jobs or cores)


@contextmanager
def stop_at_signals(stop: Callable[[], None]) -> Iterator[list[int]]:
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
def stop_runs_at_signals() -> Iterator[None]:
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


def train_seeds(
    chosen: Config, seeds: int, out: Path, executor: Executor, device: str = "cpu"
) -> list[Result]:
    """The results of one run per seed, each in a folder of its own, made or gone on with."""
    from graphdrop.executors import Job  # noqa: PLC0415 - --help needs no torch
    from graphdrop.train.many import train_in_folder  # noqa: PLC0415
    from graphdrop.train.run_dataset import fingerprint, load_named_dataset  # noqa: PLC0415

    data = None if executor.same_machine else fingerprint(load_named_dataset(chosen.data).data)
    jobs = []
    for seed in range(chosen.seed, chosen.seed + seeds):
        config = chosen.model_copy(update={"seed": seed})
        folder = str((out / f"seed-{seed}").resolve())
        arguments = (config, folder, data, device)
        jobs.append(Job(str(seed), f"the run of seed {seed}", train_in_folder, arguments))
    results: dict[str, Result] = {}
    for key, result in executor.run(jobs):
        results[key] = result
        say(
            f"Seed {key} took {result.seconds:.0f} seconds; {len(results)} of {seeds} are done.",
            file=sys.stderr,
        )
    return [results[job.key] for job in jobs]


def show_seeds(results: list[Result], out: Path, first: int) -> None:
    """Print mean and standard deviation over seeds."""
    from graphdrop.metrics.registry import Scores  # noqa: PLC0415

    runs = [{"folder": out / f"seed-{first + k}", **r.as_json()} for k, r in enumerate(results)]
    output.result(runs=runs)
    say(f"{len(results)} seeds, mean and standard deviation; the runs are in {out}/seed-*.")
    parts = {"validation": [r.validation for r in results], "test": [r.test for r in results]}
    for part, scores in parts.items():
        shown = [part.shown() if isinstance(part, Scores) else dict(part) for part in scores]
        for name in shown[0]:
            values = [row[name] for row in shown if name in row]
            say(f"{part} {name}: {mean(values):.4f} ± {stdev(values):.4f}")
