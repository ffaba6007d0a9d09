"""`graphdrop card`: a model card for a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphdrop.cli import output as machine
from graphdrop.cli.runs import Run
from graphdrop.io.visible import say


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
    from graphdrop.io.files import replace_file  # noqa: PLC0415
    from graphdrop.report.card import model_card  # noqa: PLC0415 - --help needs no torch

    if output.is_dir() or not output.parent.is_dir():
        raise ValueError(f"--output is {output}: give the name of a file in a folder that is there")
    if output.exists() and not force:
        raise ValueError(f"--output is {output}, which is there: give another name, or --force")
    text = model_card(run)
    replace_file(output, text.encode())
    say(f"Wrote {output}. Read it before you share it, and add what only you know.")
    machine.result(output=output, run=run)


def add_to(app: typer.Typer) -> None:
    """Give the command `graphdrop` this verb."""
    app.command()(card)
