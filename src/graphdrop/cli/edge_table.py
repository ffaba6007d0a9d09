"""`graphdrop edges`: the edges of a graph, the least trusted first, in a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphdrop.cli import output as machine
from graphdrop.cli import tables
from graphdrop.cli.runs import OwnData, Run, opened_run
from graphdrop.cli.sheet import writer
from graphdrop.io.visible import say

SHOWN = 3
"""The number of edges that are named in the terminal."""


def edges(
    run: Run,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The file to write: .csv, or .parquet with pyarrow.",
            show_default="RUN-edges.csv",
        ),
    ] = None,
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
    opened = opened_run(run, dataset, nodes, edges)
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
        say(f"Look first at {ranked.describe(SHOWN)}.")
    machine.result(
        output=output,
        edges=len(ranked),
        doubtful=ranked.doubtful,
        first=[[*ranked.ends(i), float(ranked.keep[i])] for i in range(min(SHOWN, len(ranked)))],
        numbers=ranked.number_names,
        same_data=opened.same,
        notes=opened.notes,
    )


def add_to(app: typer.Typer) -> None:
    """Give the command `graphdrop` this verb."""
    app.command()(edges)
