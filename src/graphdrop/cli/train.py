"""`graphdrop train`: from settings to a run's folder, and its scores in a table."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from graphdrop import config as settings
from graphdrop.cli.runs import show_calibration, show_scores
from graphdrop.cli.signals import stopping_at_signals
from graphdrop.config.names import ARCHITECTURES
from graphdrop.config.recipes import merged
from graphdrop.data import sources
from graphdrop.util.files import expanded

_SETTINGS = "\n\n".join(
    [
        "Settings, for --set and for files; what is not set comes from the method's recipe "
        "(--show-config shows it). In brackets: the default of GCN-BBGDC with 2 layers on Cora.",
        *(
            f"{one.key} ({one.default}): {one.description} Takes {one.takes}."
            for one in settings.explained()
        ),
    ]
)


def train(
    *,
    out: Annotated[
        Path | None, typer.Option(help="Folder for settings, metrics, checkpoints and the result.")
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="A known dataset, 'synthetic', or the path of an .npz file.", show_default="cora"
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help=f"One of {', '.join(settings.Method)}, with or without GCN-; GAT-BBGDC is "
            "--architecture gat --method BBGDC.",
            show_default="GCN-BBGDC",
        ),
    ] = None,
    architecture: Annotated[
        str | None,
        typer.Option(help=f"One of {', '.join(ARCHITECTURES)}.", show_default="gcn"),
    ] = None,
    layers: Annotated[
        int | None, typer.Option(help="Number of graph convolutions.", show_default="2")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Largest number of epochs.", show_default="2000")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of weights and masks.", show_default="0")
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="Folder in which a known dataset's files are looked for.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file of settings, such as a run's own config.toml.")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Any setting, over the file; may be repeated."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out, if there is one.")
    ] = False,
    show_config: Annotated[
        bool, typer.Option("--show-config", help="Print all settings as TOML and stop.")
    ] = False,
) -> None:
    """Train a method on a graph, and score it on the test nodes.

    Prints accuracy, NLL, ECE, PAvPU, AURC and the drop rate learned in each layer. A run that was
    interrupted or killed goes on with --resume, and ends as if nothing had happened.
    """
    asked = settings.override(settings.read(config) if config else {}, assignments or [])
    options: dict[str, dict[str, Any]] = {
        "data": {"dataset": dataset, "root": None if root is None else str(root)},
        "model": {"method": method, "architecture": architecture, "layers": layers},
        "train": {"epochs": epochs},
    }
    given = {
        name: {key: value for key, value in section.items() if value is not None}
        for name, section in options.items()
    }
    asked = merged(asked, {name: section for name, section in given.items() if section})
    if seed is not None:
        asked["seed"] = seed
    asked = _with_whole_paths(asked)
    if resume and out is not None and (out / "config.toml").is_file():
        asked = merged(settings.read(out / "config.toml"), asked)
    chosen = settings.settle(asked)
    if show_config:
        print(settings.to_toml(chosen), end="")
        return
    if out is None:
        raise ValueError("--out is missing: give a folder for the run, such as --out runs/a")

    from graphdrop.train import StoppedError, Trainer  # noqa: PLC0415 - --help needs no torch

    trainer = Trainer(chosen, run_folder=out, resume=resume)
    try:
        with stopping_at_signals(trainer.stop) as received:
            result = trainer.fit()
    except (StoppedError, KeyboardInterrupt):
        print(
            f"Stopped after epoch {trainer.epoch}. To go on: graphdrop train --out {out} --resume",
            file=sys.stderr,
        )
        number = received[0] if received else signal.SIGINT
        raise typer.Exit(128 + number) from None
    raw = {f"{name}, uncalibrated": scores for name, scores in result.uncalibrated.items()}
    scores = {"validation": result.validation, "test": result.test, **raw}
    show_scores(chosen, scores, result.drop_rates)
    show_calibration(result.calibration)
    print(
        f"Selected on the validation nodes: the state after epoch {result.selected_epoch} of "
        f"{result.epochs}. {result.seconds:.0f} seconds. Everything is in {out}."
    )


def _with_whole_paths(asked: dict[str, Any]) -> dict[str, Any]:
    """The same settings, with paths that stay right when the command is run from elsewhere."""
    data = asked.get("data")
    if not isinstance(data, dict):
        return asked
    whole = dict(data)
    name, root = data.get("dataset"), data.get("root")
    known = isinstance(name, str) and (name == "synthetic" or sources.find_source(name))
    if isinstance(name, str) and not known and expanded(name).exists():
        whole["dataset"] = str(expanded(name).resolve())
    if isinstance(root, str) and root:
        whole["root"] = str(expanded(root).resolve())
    return asked | {"data": whole}


def add_to(app: typer.Typer) -> None:
    """Give the command `graphdrop` this verb."""
    app.command(epilog=_SETTINGS)(train)
