"""Experiments with graphdrop, from a checkout: the paper's tables and figures, and searches.

python -m experiments table1 --runs 10     # the missing runs, then the table
python -m experiments search table1        # hyperparameter search on validation nodes
python -m experiments edges --seeds 3      # graphs with wrong edges: the missing runs, then tables
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from experiments import (
    doubtful_edges,
    doubtful_edges_page,
    search_ranking,
    search_results,
    targets,
)
from experiments.measures import AXES
from experiments.recipe import graph_name, only
from experiments.search import read_search
from experiments.store import Store
from graphdrop.cli.many_runs import (
    CpusPerRun,
    ExecutorName,
    GpusPerRun,
    Jobs,
    RayAddress,
    choose_executor,
    stop_runs_at_signals,
)
from graphdrop.cli.runs import Device
from graphdrop.config import Method
from graphdrop.data.sources import SOURCES, find_source
from graphdrop.io.files import expand_path, replace_file
from graphdrop.io.visible import Console, say


def reproduce(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="table1, table2, table3, table4, control, agree, fig-pavpu, fig-tv, fig-depth, "
            "local, ablation, amortised, general, ood, trust, calibration, sets, worth, rivals, "
            "ppnp, grand, gcnii, splits, or all.",
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
) -> None:
    """Make a table or figure of the paper, beside the paper's own numbers.

    Every finished run is kept in the folder --out as one line of runs.jsonl. Runs that are there
    are not made again: a reproduction that was stopped or killed goes on with the same command,
    and several may share one folder.

    `python -m experiments search TARGET` is a hyperparameter search; it has a --help of its own.
    """
    if axis not in AXES:
        raise ValueError(f"--axis is {axis!r}: give one of {', '.join(AXES)}")
    recipe = recipe or targets.usual_recipe(target)
    where = choose_executor(
        executor,
        jobs,
        ray_address=ray_address,
        cpus=cpus_per_run,
        gpus=gpus_per_run,
    )
    files = [str(expand_path(one).resolve()) for one in file or ()]
    chosen = targets.targets_of(target, recipe)
    request = targets.Request(
        recipe=recipe,
        files=files,
        runs=runs,
        datasets=[_dataset(name, files) for name in dataset or ()],
        methods=[_method(name, targets.rows_of(chosen, recipe)) for name in method or ()],
        factors=factor or (),
        quick=quick,
        render_only=render_only,
        out=out,
        axis=AXES[AXES.index(axis)],
        executor=where,
        device=device,
    )
    with stop_runs_at_signals(), where:
        for done in targets.reproduce(chosen, request):
            for table in done.rendering.tables.values():
                _console().print(table.to_rich())
            say(f"{done.target}: {', '.join(map(str, done.paths))}")


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
) -> None:
    """Draw configurations for every cell of a table, and find the best on the validation nodes.

    Every row gets the same number of configurations. Each is run with one seed, the best of them
    with some more. Nothing measured on test nodes is kept. Finished runs are in
    RESULTS/searches/TARGET.jsonl: a search that was stopped or killed goes on with the same
    command. A recipe that says found = "TARGET" takes the winners from recipes/found/TARGET.toml.
    """
    plan = read_search(target)
    if trials is not None:
        plan = plan.model_copy(update={"trials": trials})
    _check("--dataset", dataset or [], plan.datasets)
    _check("--method", method or [], [n for row in plan.rows for n in (row.name, row.uses)])
    if out is not None and not out.parent.is_dir():
        raise ValueError(f"--out is {out} and {out.parent} is no folder: make it first")
    store = Store(results / "searches", f"{target}.jsonl")
    where = choose_executor(
        executor,
        jobs,
        ray_address=ray_address,
        cpus=cpus_per_run,
        gpus=gpus_per_run,
    )
    cells = plan.cells()
    if not render_only:
        chosen = only(cells, dataset or [], method or [])
        with stop_runs_at_signals(), where:
            search_ranking.compete(plan, chosen, store, executor=where, device=device)
    outcomes = [search_ranking.outcome(plan, cell, store.records()) for cell in cells]
    table = search_results.table(plan, outcomes)
    _console().print(table.to_rich())
    page = store.folder / f"{target}.md"
    store.folder.mkdir(parents=True, exist_ok=True)
    replace_file(page, table.to_markdown().encode())
    if out is not None:
        replace_file(out, search_results.fragment(plan, target, outcomes).encode())
    say(f"{target}: {', '.join(str(path) for path in (store.path, page, out) if path)}")


def edges(
    *,
    part: Annotated[
        list[str] | None,
        typer.Option(
            help=f"One of {', '.join(doubtful_edges.PARTS)}; may be repeated.", show_default="all"
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of every model.")] = 1,
    model: Annotated[
        list[str] | None, typer.Option(help="Run only this model; may be repeated.")
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="Which labels fit what: a, b or ab for both.")
    ] = "ab",
    render_only: Annotated[
        bool, typer.Option("--render-only", help="Run nothing: render the runs that are there.")
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(help="Markdown whose tables are renewed; the figure goes to pictures there."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("results/edges"),
) -> None:
    """Compare models on graphs of which some edges are wrong, and write tables and the figure.

    The folder GRAPHDROP_DATA has the poisoned graphs. Runs that are there are not made again.
    """
    parts = part or list(doubtful_edges.PARTS)
    _check("--part", parts, list(doubtful_edges.PARTS))
    _check("--model", model or [], list(doubtful_edges.MODELS))
    with stop_runs_at_signals():
        if not render_only:
            doubtful_edges.make_runs(out, parts, seeds, model or (), protocol)
    rendering = doubtful_edges_page.render(out)
    for table in rendering.tables.values():
        _console().print(table.to_rich())
    paths = rendering.write(out)
    if page is not None:
        paths += doubtful_edges_page.write_page(page, rendering)
    say(f"edges: {', '.join(map(str, paths))}")


def _dataset(name: str, files: Sequence[str]) -> str:
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


def _check(option: str, given: list[str], known: list[str]) -> None:
    for name in given:
        if name not in known:
            takes = ", ".join(dict.fromkeys(known))
            raise ValueError(f"{option} is {name!r}; it takes {takes}.")


def _console() -> Console:
    """The console of the tables, wide where nobody's terminal folds them."""
    return Console(width=None if sys.stdout.isatty() else 240, markup=False, highlight=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command. An error in what was given is one line on stderr and exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    named: dict[str, Callable[..., None]] = {"search": search, "edges": edges}
    function = named.get(words[0]) if words else None
    command = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    command.command(no_args_is_help=function is not edges)(function or reproduce)
    name = f"python -m experiments {words[0]}" if function else "python -m experiments"
    try:
        command(words[1:] if function else words, prog_name=name)
    except (ValueError, OSError) as error:
        if os.environ.get("GRAPHDROP_DEBUG", "0") not in ("", "0"):
            raise
        say(f"experiments: error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
