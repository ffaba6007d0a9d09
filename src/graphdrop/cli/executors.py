"""Options of commands that make many runs: where they are made, and with what."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from graphdrop.executors import Executor

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


def executor_for(
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
