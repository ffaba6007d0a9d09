"""`graphdrop report`: an HTML page that compares runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphdrop.cli import output as machine
from graphdrop.cli import tables
from graphdrop.cli.runs import OwnData
from graphdrop.config import DataSettings
from graphdrop.io.visible import say

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from graphdrop.report.collect import RunEvidence
    from graphdrop.report.numbers import NumbersEvidence


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
    over-smoothing, and the graph with the prediction and uncertainty of every node; of numbers
    predicted and true values, how often intervals hold, and the nodes to look at first.
    """
    from graphdrop.report.runs import check_runs, gather  # noqa: PLC0415 - --help needs no torch

    if output is None:
        first = run[0].resolve()
        output = first.with_name("report.html" if len(run) > 1 else f"{first.name}-report.html")
    if output.is_dir() or not output.parent.is_dir():
        raise ValueError(
            f"--output is {output}: give the name of a file in a folder that is there, such as "
            "report.html"
        )
    check_runs(run)
    words = ["graphdrop", "report", *map(str, run), "-o", str(output)]
    given = {"--dataset": dataset, "--nodes": nodes, "--edges": edges}
    words += [str(word) for pair in given.items() if pair[1] is not None for word in pair]
    elsewhere = tables.as_settings(dataset, nodes, edges=edges)
    source = DataSettings(**elsewhere) if edges is not None else elsewhere.get("dataset")
    say(written(output, *gather(run, source), words))
    machine.result(output=output, bytes=output.stat().st_size, runs=run)


def written(
    output: Path,
    evidence: list[RunEvidence] | list[NumbersEvidence],
    data: Data,
    words: Sequence[str],
) -> str:
    """Write the report of the command with these words; a sentence that says so."""
    from graphdrop.report.html import write_report  # noqa: PLC0415

    write_report(output, evidence, data, command=shlex.join(words))
    size = output.stat().st_size / 1e6
    return f"Wrote {output} ({size:.1f} MB): open it in a browser, it needs no network."


def add_to(app: typer.Typer) -> None:
    """Give the command `graphdrop` this verb."""
    app.command()(report)
