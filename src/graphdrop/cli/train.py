"""`graphdrop train`: from settings to a run's folder, and its scores in a table."""

from __future__ import annotations

import signal
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from graphdrop import config as settings
from graphdrop.cli import output, tables
from graphdrop.cli.many_runs import (
    CpusPerRun,
    ExecutorName,
    GpusPerRun,
    RayAddress,
    choose_executor,
    show_seeds,
    stop_at_signals,
    stop_runs_at_signals,
    train_seeds,
)
from graphdrop.cli.runs import (
    Budget,
    CostRatio,
    Device,
    show_calibration,
    show_mean_error,
    show_rare,
    show_scores,
)
from graphdrop.config import Config, toml
from graphdrop.config.recipes import ARCHITECTURES, merge_settings
from graphdrop.data import sources
from graphdrop.io import torchrun
from graphdrop.io.files import expand_path
from graphdrop.io.visible import say

if TYPE_CHECKING:
    from graphdrop.executors import Executor
    from graphdrop.train.result import Result

SETTINGS = "\n\n".join(
    [
        "Settings, for --set and for files; what is not set comes from the recipe "
        "(--show-config shows it). In brackets: the value before a recipe.",
        *(
            f"{setting.key} ({setting.default}): {setting.description} Takes {setting.takes}."
            for setting in toml.explained()
        ),
    ]
)


SHORT = """\
Usage: graphdrop train [--nodes FILE --edges FILE --label COLUMN] --out RUN

Train a network on a graph, calibrate it, and score it on the test nodes.

  --out RUN            folder for settings, checkpoints and the result
  --nodes FILE         your table of nodes, .csv or .parquet, a row each
  --edges FILE         your table of edges: source, target, ids of nodes
  --edges fitted       a rate for every edge; one-rate: for every layer
  --label COLUMN       its classes; an empty cell is a node to predict
  --id COLUMN          its ids; by default id, or what edges name
  --features A,B,C     its features; by default all but free text
  --split-column NAME  its train, val, test; by default 60 / 20 / 20 % of
                       each class at random
  --split-by-time NAME its dates: train on the oldest, test on the newest
  --dataset NAME       no tables: cora, citeseer, pubmed, cora_ml, synthetic,
                       an .npz file, a folder with nodes.csv and edges.csv
  --method NAME        GCN-BBGDC, GCN-DO, GCN-DE, ...; GAT-BBGDC and so on
  --seed N, --seeds N  the seed; how many seeds, for mean and deviation
  --set KEY=VALUE      any setting, such as train.epochs=200
  --resume             go on with the run in --out, if there is one
  --json, --quiet      for machines: one JSON document; no progress
  --help-all           all options and all settings

Then: graphdrop predict RUN, graphdrop report RUN, graphdrop edges RUN\
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


def train(
    *,
    out: Annotated[
        Path | None, typer.Option(help="Folder for settings, metrics, checkpoints and the result.")
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="A known dataset, 'synthetic', an .npz file, or a folder with nodes.csv and "
            "edges.csv.",
            show_default="cora",
        ),
    ] = None,
    nodes: tables.Nodes = None,
    edges: tables.EdgesOrRates = None,
    label: tables.Label = None,
    id_column: tables.Id = None,
    features: tables.Features = None,
    split_column: tables.SplitColumn = None,
    split_by_time: tables.SplitByTime = None,
    source_column: tables.SourceColumn = None,
    target_column: tables.TargetColumn = None,
    weight: tables.Weight = None,
    missing: tables.Missing = None,
    task: tables.Task = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="public, random-per-class, random-fractions or ppnp.",
            show_default="the split that comes with the data, or else 60 / 20 / 20 % of each class",
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
        int | None, typer.Option(help="Largest number of epochs.", show_default="the recipe's")
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(help="Training nodes of a mini-batch; 0 for all.", show_default="0"),
    ] = None,
    fan_out: Annotated[
        str | None,
        typer.Option(
            help="Edges into a node that a mini-batch samples, per layer; -1 for all.",
            show_default="15,10,5",
        ),
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
    recipe: Annotated[
        str | None,
        typer.Option(
            help="auto chooses for the graph what is not set, paper takes the paper's settings, "
            "baseline trains a logistic or ridge regression.",
            show_default="auto",
        ),
    ] = None,
    baseline: Annotated[
        bool,
        typer.Option(
            "--baseline",
            help="Train a logistic or ridge regression in place of a network: on features, or also "
            "on neighbours' means, whichever is better on validation nodes.",
        ),
    ] = False,
    seeds: Annotated[
        int, typer.Option(min=1, help="Train with so many seeds; gives mean and deviation.")
    ] = 1,
    tune: Annotated[
        int,
        typer.Option(
            min=0, help="First try so many settings around the recipe's, on validation nodes."
        ),
    ] = 0,
    device: Device = "cpu",
    budget: Budget = None,
    cost_ratio: CostRatio = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out, if there is one.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="For --seeds and --tune: runs made at once.",
            show_default="1; ray: what the cluster holds",
        ),
    ] = None,
    executor: ExecutorName = "local",
    ray_address: RayAddress = None,
    cpus_per_run: CpusPerRun = 1,
    gpus_per_run: GpusPerRun = 0.0,
    show_config: Annotated[
        bool, typer.Option("--show-config", help="Print all settings as TOML and stop.")
    ] = False,
    _help_all: Annotated[
        bool,
        typer.Option("--help-all", help="Show this message.", callback=show_all, is_eager=True),
    ] = False,
) -> None:
    """Train a method on a graph, and score it on the test nodes.

    Prints accuracy, NLL, ECE, PAvPU, AURC and the drop rate learned in each layer; where labels are
    numbers RMSE, MAE, R2, NLL, and coverage and width of 90 % intervals. A run that was
    interrupted or killed continues with --resume, with the same result as without a stop.
    """
    asked = toml.override(toml.read(config) if config else {}, assignments or [])
    table, rates = tables.split_edges(edges or [])
    options: dict[str, dict[str, Any]] = {
        "data": tables.collect_settings(
            dataset,
            nodes,
            root=root,
            edges=table,
            label_column=label,
            id_column=id_column,
            feature_columns=features,
            split_column=split_column,
            split_by_time=split_by_time,
            source_column=source_column,
            target_column=target_column,
            weight_column=weight,
            missing=missing,
            task=task,
            split=split,
        ),
        "model": {
            "method": method,
            "architecture": architecture,
            "layers": layers,
            "edges": rates,
        },
        "train": {"epochs": epochs, "batch_size": batch_size, "fan_out": fan_out},
        "predict": {"budget": budget, "cost_ratio": cost_ratio},
    }
    given = {
        name: {key: value for key, value in section.items() if value is not None}
        for name, section in options.items()
    }
    asked = merge_settings(asked, {name: section for name, section in given.items() if section})
    if baseline and recipe not in (None, "baseline"):
        raise ValueError(f"--baseline and --recipe {recipe} are given: leave one of them out")
    recipe = "baseline" if baseline else recipe
    asked |= {name: v for name, v in {"seed": seed, "recipe": recipe}.items() if v is not None}
    asked = _resolve_paths(asked)
    resume = resume or torchrun.restarts() > 0
    if resume and out is not None and (out / "config.toml").is_file():
        asked = merge_settings(toml.read(out / "config.toml"), asked)
    chosen = settings.settle(asked)
    if show_config:
        _show_settings(chosen, device)
        return
    if out is None:
        raise ValueError("--out is missing: give a folder for the run, such as --out runs/a")

    if torchrun.world_size() > 1:
        if tune or seeds > 1 or executor != "local":
            raise ValueError(
                f"torchrun started {torchrun.world_size()} processes, which share one run: leave "
                "out --tune, --seeds and --executor, or start the command without torchrun"
            )
        from graphdrop.train.ranks import join_ranks  # noqa: PLC0415 - --help needs no torch

        with join_ranks():
            _show(*_train_one(chosen, out, resume=resume, device=device), out)
        return
    where = choose_executor(
        executor,
        jobs or (1 if executor == "local" else None),
        ray_address=ray_address,
        cpus=cpus_per_run,
        gpus=gpus_per_run,
    )
    many = executor != "local" or (jobs or 1) > 1
    with stop_runs_at_signals() if many else nullcontext(), where:
        if tune:
            chosen = _tune(chosen, tune, out, where if many else None, device)
        if seeds > 1 and many:
            results = train_seeds(chosen, seeds, out, where, device)
        elif seeds > 1:
            results = []
            for number in range(chosen.seed, chosen.seed + seeds):
                folder = out / f"seed-{number}"
                going_on = resume or folder.exists()
                changed = chosen.model_copy(update={"seed": number})
                results.append(_train_one(changed, folder, resume=going_on, device=device)[1])
    if seeds > 1:
        show_seeds(results, out, chosen.seed)
        return
    _show(*_train_one(chosen, out, resume=resume, device=device), out)


def _show(chosen: Config, result: Result, out: Path) -> None:
    """The scores of a run, as tables and for machines."""
    from graphdrop.metrics.ranking import RareFigures  # noqa: PLC0415 - --help needs no torch

    output.result(folder=out, config=chosen.model_dump(mode="json"), **result.as_json())
    refused = result.calibration.get("name") == "none"
    before = {} if refused else result.uncalibrated
    raw = {f"{name}, uncalibrated": scores for name, scores in before.items()}
    folds = ", out of fold" if result.calibration.get("out_of_fold") else ""
    scores = {f"validation{folds}": result.validation, "test": result.test, **raw}
    show_scores(chosen, scores, result.drop_rates, result.baselines)
    show_rare(
        [
            (row["name"], part, RareFigures(**row[part]))
            for row in result.rare
            for part in ("validation", "test")
            if part in row
        ]
    )
    show_calibration(result.calibration)
    if result.always_the_mean:
        show_mean_error(chosen, result.always_the_mean["rmse"])
    say(
        f"Selected on the validation nodes: the state after epoch {result.selected_epoch} of "
        f"{result.epochs}. {result.seconds:.0f} seconds. Everything is in {out}."
    )


def _train_one(chosen: Config, out: Path, *, resume: bool, device: str) -> tuple[Config, Result]:
    """Train in a folder; a signal stops the run after its epoch, with its state kept."""
    from graphdrop.train import StoppedError, Trainer  # noqa: PLC0415 - --help needs no torch

    trainer = Trainer(chosen, run_folder=out, resume=resume, device=device)
    try:
        with stop_at_signals(trainer.stop) as received:
            return trainer.config, trainer.fit()
    except (StoppedError, KeyboardInterrupt):
        say(
            f"Stopped after epoch {trainer.epoch}. To go on: graphdrop train --out {out} --resume",
            file=sys.stderr,
        )
        number = received[0] if received else signal.SIGINT
        raise typer.Exit(128 + number) from None


def _show_settings(chosen: Config, device: str) -> None:
    """Print all settings as TOML, those that a recipe chooses for the graph among them."""
    if chosen.recipe != "paper":
        from graphdrop.train import auto  # noqa: PLC0415 - --help needs no torch
        from graphdrop.train.progress import Progress  # noqa: PLC0415
        from graphdrop.train.run_dataset import resolve_dataset  # noqa: PLC0415

        chosen, dataset = resolve_dataset(chosen, None)
        chosen = auto.choose_settings(chosen, dataset, Progress(), device=device)
    say(toml.to_toml(chosen), end="")
    output.result(config=chosen.model_dump(mode="json"))


def _tune(chosen: Config, trials: int, out: Path, executor: Executor | None, device: str) -> Config:
    """The best settings of a search; its trials are kept beside the run's folder."""
    from graphdrop.train.many import tune  # noqa: PLC0415
    from graphdrop.train.run_dataset import resolve_dataset  # noqa: PLC0415

    chosen, dataset = resolve_dataset(chosen, None)
    log = out.with_name(f"{out.name}-trials.jsonl")
    tell = partial(say, file=sys.stderr)
    return tune(chosen, dataset, trials, log=log, say=tell, executor=executor, device=device)


def _resolve_paths(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with paths that stay right when the command is run from elsewhere."""
    data = asked.get("data")
    if not isinstance(data, dict):
        return asked
    whole = dict(data)
    name = data.get("dataset")
    known = isinstance(name, str) and (name == "synthetic" or sources.find_source(name))
    if isinstance(name, str) and not known and expand_path(name).exists():
        whole["dataset"] = tables.resolve_path(name)
    for key in ("root", "edges"):
        if isinstance(path := data.get(key), str) and path:
            whole[key] = tables.resolve_path(path)
    return asked | {"data": whole}
