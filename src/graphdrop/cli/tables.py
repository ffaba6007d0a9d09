"""The options of commands that read tables, as settings of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from graphdrop.io.files import expand_path

PANEL = "Your own tables"
Nodes = Annotated[
    Path | None,
    typer.Option(
        help="Table of nodes, .csv or .parquet, with one row per node.", rich_help_panel=PANEL
    ),
]
Edges = Annotated[
    Path | None,
    typer.Option(
        help="Table of edges: source, target.",
        show_default="edges.* beside the nodes",
        rich_help_panel=PANEL,
    ),
]
EDGE_RATES = ("fitted", "one-rate", "auto")
EdgesOrRates = Annotated[
    list[str] | None,
    typer.Option(
        "--edges",
        metavar="FILE|fitted|one-rate|auto",
        help="Table of edges: source, target. Or how often edges are kept: fitted gives every edge "
        "a rate of its own, one-rate every layer one, and auto tests whether edges differ. Both "
        "may be given.",
        show_default="edges.* beside the nodes, auto",
        rich_help_panel=PANEL,
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column of classes or numbers; an empty cell is a node to predict.",
        show_default="label",
        rich_help_panel=PANEL,
    ),
]
Id = Annotated[
    str | None,
    typer.Option(
        "--id", metavar="COLUMN", help="Column of ids.", show_default="id", rich_help_panel=PANEL
    ),
]
Features = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,C",
        help="Columns that are features.",
        show_default="all but free text",
        rich_help_panel=PANEL,
    ),
]
SplitColumn = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column of train, val, test.", rich_help_panel=PANEL),
]
SplitByTime = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column of ISO dates or numbers: train on the oldest 60 %, validate on the next 20 %, "
        "test on the newest.",
        rich_help_panel=PANEL,
    ),
]
Task = Annotated[
    str | None,
    typer.Option(
        metavar="classes|numbers",
        help="What the labels are.",
        show_default="by their values",
        rich_help_panel=PANEL,
    ),
]
SourceColumn = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column of the edges with the ids of one end.",
        show_default="source, src or from",
        rich_help_panel=PANEL,
    ),
]
TargetColumn = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column with the ids of the other end.",
        show_default="target, dst or to",
        rich_help_panel=PANEL,
    ),
]
Weight = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column of edge weights.", rich_help_panel=PANEL),
]
Missing = Annotated[
    str | None,
    typer.Option(
        metavar="impute|refuse",
        help="What to do with missing values.",
        show_default="impute",
        rich_help_panel=PANEL,
    ),
]


def split_edges(given: list[str]) -> tuple[str | None, str | None]:
    """The table of edges and the kind of rates among the values of ``--edges``."""
    files = [value for value in given if value not in EDGE_RATES]
    rates = [value for value in given if value in EDGE_RATES]
    if max(len(files), len(rates)) > 1:
        raise ValueError(
            f"--edges is {', '.join(given)}: give at most one table and one of "
            f"{', '.join(EDGE_RATES)}; a file of such a name is ./fitted"
        )
    return next(iter(files), None), next(iter(rates), None)


def collect_settings(dataset: str | None, nodes: Path | None, **given: Any) -> dict[str, Any]:
    """Settings of ``data`` from options; ``--nodes FILE`` is a dataset like any other."""
    if nodes is not None and dataset is not None:
        raise ValueError(
            f"--nodes is {nodes} and --dataset {dataset}: give one of them; a folder with nodes "
            "and edges in it is a --dataset"
        )
    whole = {"dataset": dataset if nodes is None else str(nodes), **given}
    return {key: str(value) for key, value in whole.items() if value is not None}


def resolve_path(path: str) -> str:
    """A path that stays right when the command is run from elsewhere."""
    return str(expand_path(path).resolve())
