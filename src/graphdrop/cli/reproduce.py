"""`graphdrop reproduce`: a table or figure of the paper at one command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from graphdrop.cli import output
from graphdrop.cli.executors import (
    CpusPerRun,
    ExecutorName,
    GpusPerRun,
    Jobs,
    MemoryPerRun,
    RayAddress,
    RunsPerTask,
    Slurm,
    executor_for,
)
from graphdrop.cli.runs import Device
from graphdrop.cli.signals import stopping_runs
from graphdrop.config import Method
from graphdrop.data.sources import SOURCES, find_source
from graphdrop.util.files import expanded
from graphdrop.util.visible import Console, say


def reproduce(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="table1, table2, table3, table4, control, agree, fig-pavpu, fig-tv, fig-depth, "
            "local, ablation, amortised, general, ood, trust, calibration, sets, worth, rivals, "
            "ppnp, grand, gcnii, splits, schematics, or all.",
        ),
    ],
    *,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="paper: the paper's settings. tuned: ours, chosen on validation. control: for "
            "ood, what the settings do without the method. auto: the default settings. deep: for "
            "tables 1 to 3, four layers searched for.",
            show_default="paper, or the only one",
        ),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Seeds per cell.", show_default="the recipe's, 10")
    ] = None,
    jobs: Jobs = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Run only cells of this dataset; may be repeated.")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Run only cells of this method, or of this row of the table; may be repeated."
        ),
    ] = None,
    factor: Annotated[
        list[str] | None,
        typer.Option(
            help="For worth: run only what this factor needs, one of sharing, rate, estimator, kl, "
            "prediction, architecture; may be repeated."
        ),
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option(
            help="For trust, calibration, sets, worth and ood with the recipe auto: an .npz file "
            "of your own, as well; may be repeated. --dataset takes its name, too."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few epochs and seeds, to see it work; kept apart.")
    ] = False,
    render_only: Annotated[
        bool, typer.Option("--render-only", help="Run nothing: render the runs that are there.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the runs, tables and figures.")] = Path(
        "results"
    ),
    axis: Annotated[
        str,
        typer.Option(
            help="Thresholds of fig-pavpu: fraction-of-largest (the paper's), "
            "fraction-of-log-classes or smallest-to-largest."
        ),
    ] = "fraction-of-largest",
    device: Device = "cpu",
    executor: ExecutorName = "local",
    ray_address: RayAddress = None,
    cpus_per_run: CpusPerRun = 1,
    gpus_per_run: GpusPerRun = 0.0,
    memory_per_run: MemoryPerRun = None,
    runs_per_task: RunsPerTask = None,
    slurm: Slurm = None,
) -> None:
    """Make a table or figure of the paper, beside the paper's own numbers.

    Every finished run is kept in the folder --out as one line of runs.jsonl. Runs that are there
    are not made again: a reproduction that was stopped or killed goes on with the same command,
    and several may share one folder.
    """
    from graphdrop import experiments  # noqa: PLC0415 - --help needs no torch
    from graphdrop.experiments.measures import AXES  # noqa: PLC0415

    if axis not in AXES:
        raise ValueError(f"--axis is {axis!r}: give one of {', '.join(AXES)}")
    recipe = recipe or experiments.usual_recipe(target)
    where = executor_for(
        executor,
        jobs,
        out / "slurm",
        ray_address=ray_address,
        cpus=cpus_per_run,
        gpus=gpus_per_run,
        memory=memory_per_run,
        group=runs_per_task,
        slurm=slurm,
    )
    files = [str(expanded(one).resolve()) for one in file or ()]
    targets = experiments.targets_of(target, recipe)
    request = experiments.Request(
        recipe=recipe,
        files=files,
        runs=runs,
        datasets=[_dataset(name, files) for name in dataset or ()],
        methods=[_method(name, experiments.rows_of(targets, recipe)) for name in method or ()],
        factors=factor or (),
        quick=quick,
        render_only=render_only,
        out=out,
        axis=AXES[AXES.index(axis)],
        executor=where,
        device=device,
    )
    console = Console(width=None if sys.stdout.isatty() else 240, markup=False, highlight=False)
    try:
        with stopping_runs(), where:
            for done in experiments.reproduce(targets, request):
                for table in done.rendering.tables.values():
                    console.print(table.to_rich())
                say(f"{done.target}: {', '.join(map(str, done.paths))}")
                output.result(**{done.target: done.paths})
    except typer.Exit:  # by a signal; to Python it is a RuntimeError
        raise
    except RuntimeError as error:
        raise ValueError(str(error)) from error


def _dataset(name: str, files: Sequence[str]) -> str:
    from graphdrop.experiments.recipe import graph_name  # noqa: PLC0415 - loads torch

    of_files = {graph_name(file): file for file in files}
    if name in of_files:
        return of_files[name]
    source = find_source(name)
    if source is None:
        known = ", ".join([*SOURCES, *of_files])
        raise ValueError(f"--dataset is {name!r}: give one of {known}, or add its file with --file")
    return source.name


def _method(name: str, rows: Sequence[str]) -> str:
    if name in rows or name in list(Method):
        return name
    own = ", ".join(repr(row) for row in rows if row not in list(Method))  # some have commas
    raise ValueError(
        f"--method is {name!r}: give one of {', '.join(Method)}"
        + (f", or a row: {own}" * bool(own))
    )


def add_to(app: typer.Typer) -> None:
    """Give the command `graphdrop` this verb."""
    app.command()(reproduce)
