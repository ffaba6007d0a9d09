"""`graphdrop train --help` in twenty lines, and `--help-all` with every option and setting."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

SHORT = """\
Usage: graphdrop train [--nodes FILE --edges FILE --label COLUMN] --out RUN

Train a network on a graph, calibrate it, and score it on the test nodes.

  --out RUN            folder for settings, checkpoints and the result
  --nodes FILE         your table of nodes, .csv or .parquet, a row each
  --edges FILE         your table of edges: source, target, ids of nodes
  --edges fitted       a rate for every edge; one-rate: for every layer;
                       by default the labels decide
  --label COLUMN       its classes; an empty cell is a node to predict
  --id COLUMN          its ids; by default id, or the first column
  --features A,B,C     its features; by default all that are no free text
  --split-column NAME  its train, val, test; by default 60 / 20 / 20 % of
                       each class at random
  --split-by-time NAME its dates: train on the oldest, test on the newest
  --dataset NAME       instead: cora, citeseer, pubmed, cora_ml, synthetic,
                       an .npz file, a folder with nodes.csv and edges.csv
  --method NAME        GCN-BBGDC, GCN-DO, GCN-DE, ...; GAT-BBGDC and so on
  --seed N, --seeds N  another seed; as many seeds, with their deviation
  --set KEY=VALUE      any setting, such as train.epochs=200
  --resume             go on with the run in --out, if there is one
  --json, --quiet      for machines: one JSON document; no progress
  --help-all           all options and all settings

Then: graphdrop predict RUN -o answers.csv, graphdrop report RUN,
graphdrop edges RUN -o edges.csv\
"""


class TrainCommand(TyperCommand):
    """A command whose help is `SHORT`; `--help-all` asks for what typer writes."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the short text, or all where `show_all` has asked for it."""
        if ctx.meta.get(__name__):
            super().format_help(ctx, formatter)
        else:
            formatter.write(f"{SHORT}\n")


def show_all(context: typer.Context, wanted: bool) -> None:
    """Print every option and setting, and stop."""
    if wanted:
        context.meta[__name__] = True
        print(context.get_help())
        raise typer.Exit
