"""`graphdrop search`: hyperparameter search on validation nodes, equal budget for every method."""

from __future__ import annotations

import sys
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
from graphdrop.util.visible import Console, say


def search(
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET", help="A file of experiments/searches, such as table1."),
    ],
    *,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Configurations per cell.", show_default="the file's")
    ] = None,
    jobs: Jobs = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Search only cells of this dataset; may be repeated.")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Search only this row or method; may be repeated.")
    ] = None,
    render_only: Annotated[
        bool, typer.Option("--render-only", help="Run nothing: show what is there.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="TOML file for the winners, as rules for a recipe.")
    ] = None,
    results: Annotated[
        Path, typer.Option(help="Folder of results; a search is in searches/ there.")
    ] = Path("results"),
    device: Device = "cpu",
    executor: ExecutorName = "local",
    ray_address: RayAddress = None,
    cpus_per_run: CpusPerRun = 1,
    gpus_per_run: GpusPerRun = 0.0,
    memory_per_run: MemoryPerRun = None,
    runs_per_task: RunsPerTask = None,
    slurm: Slurm = None,
) -> None:
    """Draw configurations for every cell of a table, and find the best on the validation nodes.

    Every row gets the same number of configurations. Each is run with one seed, the best of them
    with some more. Nothing measured on test nodes is kept. Finished runs are in
    RESULTS/searches/TARGET.jsonl: a search that was stopped or killed goes on with the same
    command. A recipe that says found = "TARGET" takes the winners from recipes/found/TARGET.toml.
    """
    from graphdrop.experiments import Store, recipe, search_ranking, search_results  # noqa: PLC0415
    from graphdrop.experiments.search import read_search  # noqa: PLC0415
    from graphdrop.util.files import replace_file  # noqa: PLC0415

    plan = read_search(target)
    if trials is not None:
        plan = plan.model_copy(update={"trials": trials})
    _check("--dataset", dataset or [], plan.datasets)
    _check("--method", method or [], [n for row in plan.rows for n in (row.name, row.uses)])
    if out is not None and not out.parent.is_dir():
        raise ValueError(f"--out is {out} and {out.parent} is no folder: make it first")
    store = Store(results / "searches", f"{target}.jsonl")
    where = executor_for(
        executor,
        jobs,
        results / "slurm",
        ray_address=ray_address,
        cpus=cpus_per_run,
        gpus=gpus_per_run,
        memory=memory_per_run,
        group=runs_per_task,
        slurm=slurm,
    )
    cells = plan.cells()
    if not render_only:
        chosen = recipe.only(cells, dataset or [], method or [])
        try:
            with stopping_runs(), where:
                search_ranking.compete(plan, chosen, store, executor=where, device=device)
        except typer.Exit:  # by a signal; to Python it is a RuntimeError
            raise
        except RuntimeError as error:
            raise ValueError(str(error)) from error
    outcomes = [search_ranking.outcome(plan, cell, store.records()) for cell in cells]
    table = search_results.table(plan, outcomes)
    console = Console(width=None if sys.stdout.isatty() else 240, markup=False, highlight=False)
    console.print(table.to_rich())
    page = store.folder / f"{target}.md"
    store.folder.mkdir(parents=True, exist_ok=True)
    replace_file(page, table.to_markdown().encode())
    if out is not None:
        replace_file(out, search_results.fragment(plan, target, outcomes).encode())
    output.result(**{target: [path for path in (store.path, page, out) if path]})
    say(f"{target}: {', '.join(str(path) for path in (store.path, page, out) if path)}")


def _check(option: str, given: list[str], known: list[str]) -> None:
    for name in given:
        if name not in known:
            takes = ", ".join(dict.fromkeys(known))
            raise ValueError(f"{option} is {name!r}: this search has {takes}")


def add_to(app: typer.Typer) -> None:
    """Give the command `graphdrop` this verb."""
    app.command()(search)
