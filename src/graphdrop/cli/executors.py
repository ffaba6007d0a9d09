"""Options of commands that make many runs: where they are made, and with what."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from graphdrop.executors import Executor

NAMES = ("local", "ray", "slurm")
_PANEL = "Many runs"

ExecutorName = Annotated[
    str,
    typer.Option(
        "--executor",
        help="Where runs are made: local (processes here), ray or slurm.",
        rich_help_panel=_PANEL,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Runs made at once; with ray or slurm, tasks at once.",
        show_default="one per core; ray: what the cluster holds; slurm: 32",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        help="Ray cluster to join: host:port, or auto for the one on this machine.",
        show_default="RAY_ADDRESS, or a cluster of this machine alone",
        rich_help_panel=_PANEL,
    ),
]
CpusPerRun = Annotated[
    int, typer.Option(min=1, help="ray, slurm: processors for a run.", rich_help_panel=_PANEL)
]
GpusPerRun = Annotated[
    float, typer.Option(min=0, help="ray, slurm: GPUs for a run.", rich_help_panel=_PANEL)
]
MemoryPerRun = Annotated[
    float | None,
    typer.Option(
        help="ray, slurm: GiB to reserve for a run.", show_default="none", rich_help_panel=_PANEL
    ),
]
RunsPerTask = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="ray, slurm: runs in one task.",
        show_default="as many as take 20 s",
        rich_help_panel=_PANEL,
    ),
]
Slurm = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="slurm: an option of sbatch, such as partition=long; may be repeated.",
        rich_help_panel=_PANEL,
    ),
]


def executor_for(
    name: str,
    jobs: int | None,
    folder: Path,
    *,
    ray_address: str | None,
    cpus: int,
    gpus: float,
    memory: float | None,
    group: int | None,
    slurm: list[str] | None,
) -> Executor:
    """The executor that the options ask for; nothing is started yet.

    Args:
        name: local, ray or slurm.
        jobs: how many at once.
        folder: where SLURM jobs leave their results.
        ray_address: of a Ray cluster.
        cpus: processors for a run.
        gpus: GPUs for a run.
        memory: GiB for a run.
        group: runs in one task.
        slurm: options of sbatch.
    """
    from graphdrop import executors  # noqa: PLC0415 - only what is asked for is imported

    if name not in NAMES:
        raise ValueError(f"--executor is {name!r}: give one of {', '.join(NAMES)}")
    if name == "local":
        others = {
            "--ray-address": ray_address,
            "--cpus-per-run": cpus > 1,
            "--gpus-per-run": gpus,
            "--memory-per-run": memory,
            "--runs-per-task": group,
            "--slurm": slurm,
        }
        if given := [option for option, value in others.items() if value]:
            raise ValueError(
                f"{given[0]} is given, and --executor is local, which has no such option: give "
                "--executor ray or slurm"
            )
        return executors.LocalExecutor(jobs or cores())
    from graphdrop.executors.groups import Resources  # noqa: PLC0415

    resources = Resources(cpus, gpus, memory)
    if name == "ray":
        from graphdrop.executors.ray_tasks import RayExecutor  # noqa: PLC0415

        return RayExecutor(ray_address, jobs, resources, group)
    from graphdrop.executors.slurm_jobs import SlurmExecutor  # noqa: PLC0415

    return SlurmExecutor(folder, jobs, resources, group, _parameters(slurm or []))


def _parameters(given: list[str]) -> dict[str, str]:
    parameters = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise ValueError(f"--slurm is {text!r}; it takes KEY=VALUE, such as partition=long.")
        parameters[name] = value
    return parameters


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
