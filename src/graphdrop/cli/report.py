"""Commands that show runs to a person: `graphdrop report`, `graphdrop edges`, `graphdrop card`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphdrop.cli import output as machine
from graphdrop.cli import tables
from graphdrop.cli.runs import OwnData, Run, TableFile, open_given_run
from graphdrop.cli.sheet import writer
from graphdrop.config import DataSettings
from graphdrop.io.files import replace_file
from graphdrop.io.visible import say

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from graphdrop.report.collect import Evidence

NAMED_EDGES = 3
"""The number of edges that are named in the terminal."""


def check_output(output: Path) -> None:
    """Raise if a file of this name cannot be written because of its folder."""
    if output.is_dir() or not output.parent.is_dir():
        raise ValueError(f"--output is {output}: give the name of a file in a folder that is there")


def report(
    run: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs: --out of train.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The file to write.",
            show_default="RUN-report.html; of several runs report.html beside the first",
        ),
    ] = None,
    dataset: OwnData = None,
    nodes: tables.Nodes = None,
    edges: tables.Edges = None,
) -> None:
    """Compare runs on the same nodes in an HTML page that needs no network and no server.

    Shows scores, the nodes to look at first, the confusion matrix, risk against coverage, sets,
    precision, recall and ROC curves, calibration, PAvPU, training curves with the learned rates,
    over-smoothing, the least trusted edges, and the graph with the prediction and uncertainty of
    every node. Of runs that predict numbers it shows predicted and true values, how often intervals
    hold, and the nodes to look at first.
    """
    from graphdrop.report.runs import check_runs, gather  # noqa: PLC0415 - --help needs no torch

    if output is None:
        first = run[0].resolve()
        output = first.with_name("report.html" if len(run) > 1 else f"{first.name}-report.html")
    check_output(output)
    check_runs(run)
    words = ["graphdrop", "report", *map(str, run), "-o", str(output)]
    given = {"--dataset": dataset, "--nodes": nodes, "--edges": edges}
    words += [str(word) for pair in given.items() if pair[1] is not None for word in pair]
    elsewhere = tables.collect_settings(dataset, nodes, edges=edges)
    source = DataSettings(**elsewhere) if edges is not None else elsewhere.get("dataset")
    say(write_page(output, *gather(run, source), words))
    machine.result(output=output, bytes=output.stat().st_size, runs=run)


def write_page(
    output: Path,
    evidence: Sequence[Evidence],
    data: Data,
    words: Sequence[str],
) -> str:
    """Write the report of the command with these words; a sentence that says so."""
    from graphdrop.report.html import write_report  # noqa: PLC0415

    write_report(output, evidence, data, command=shlex.join(words))
    size = output.stat().st_size / 1e6
    return f"Wrote {output} ({size:.1f} MB): open it in a browser, it needs no network."


def edges(
    run: Run,
    output: TableFile = None,
    *,
    dataset: OwnData = None,
    nodes: tables.Nodes = None,
    edges: tables.Edges = None,
) -> None:
    """List the edges of a graph, the least trusted first.

    Writes for each edge both ends, the probability with which the network keeps it, its rank, and
    the numbers from which that probability is computed, such as the cosine of the features of both
    ends. An edge that is listed in both directions has one row.

    The run needs a rate for every edge: training tests whether edges differ, and --edges fitted
    insists. With --dataset, or --nodes and --edges, it lists the edges of another graph with the
    same columns.
    """
    from graphdrop.inference.predictive import find_edge_prior, rank_edges  # noqa: PLC0415
    from graphdrop.nn.sampled import sampled  # noqa: PLC0415 - --help needs no torch

    if output is None:
        output = run.resolve().with_name(f"{run.resolve().name}-edges.csv")
    write = writer(output)
    opened = open_given_run(run, dataset, nodes, edges)
    engine = sampled(opened.model)
    prior = find_edge_prior(engine)
    if prior is None:
        raise ValueError(
            f"{run} keeps all edges of a layer equally often, so none is trusted less than "
            "another: train with --edges fitted"
        )
    ranked = rank_edges(prior, engine.defaults, opened.data)
    write(ranked.columns(), output)
    say(f"Wrote {len(ranked):,} edges to {output}. {ranked.summary()}")
    if len(ranked):
        say(f"Look first at {ranked.describe(NAMED_EDGES)}.")
    machine.result(
        output=output,
        edges=len(ranked),
        doubtful=ranked.doubtful,
        first=[
            [*ranked.ends(i), float(ranked.keep[i])] for i in range(min(NAMED_EDGES, len(ranked)))
        ],
        numbers=ranked.number_names,
        same_data=opened.same,
        notes=opened.notes,
    )


def card(
    run: Run,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path(
        "README.md"
    ),
    force: Annotated[
        bool, typer.Option("--force", help="Write over a file that is there.")
    ] = False,
) -> None:
    """Write a model card for a run: data, split, figures, calibration, intended use, limits."""
    from graphdrop.report.card import model_card  # noqa: PLC0415 - --help needs no torch

    check_output(output)
    if output.exists() and not force:
        raise ValueError(f"--output is {output}, which is there: give another name, or --force")
    text = model_card(run)
    replace_file(output, text.encode())
    say(f"Wrote {output}. Read it before you share it, and add what only you know.")
    machine.result(output=output, run=run)
