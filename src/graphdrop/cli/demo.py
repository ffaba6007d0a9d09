"""`graphdrop demo`: DropOut against learned Graph DropConnect, with a table and a report."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from graphdrop import config as settings
from graphdrop.cli import output
from graphdrop.cli.report import write_page
from graphdrop.data.sources import SOURCES, UnavailableError
from graphdrop.io.visible import Console, say

if TYPE_CHECKING:
    from graphdrop.data import Dataset
    from graphdrop.report.collect import RunEvidence

DATASETS = ("cora", "citeseer", "synthetic")
"""The datasets; the first one that is available is used."""
METHODS = ("GCN-DO", "GCN-BBGDC")
"""Both with the default settings: chosen for the graph, calibrated, predicted by Monte Carlo."""


def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for runs and report; a number is added if it is there.")
    ] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights and masks.")] = 0,
) -> None:
    """Train two networks on a citation graph, compare them, and write a report.

    A GCN with DropOut, and one whose connections are dropped at rates that it learns: on Cora, or
    where Cora cannot be had on Citeseer or on a synthetic graph. Takes about a minute or two.
    """
    import torch  # noqa: PLC0415 - --help needs no torch

    from graphdrop.report.runs import gather  # noqa: PLC0415
    from graphdrop.train import Trainer  # noqa: PLC0415

    dataset = _load_first()
    folder, data, title = choose_folder(out), dataset.data, _title(dataset.name)
    edges = data.edge_index.shape[1] // 2
    _tell(f"{title}: {len(data.y)} nodes, {edges} edges. Everything goes to {folder}.")
    # On so small a graph a second thread gains little, and loses much where cores are busy.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for number, method in enumerate(METHODS, 1):
            asked = {"seed": seed, "data": {"dataset": dataset.name}, "model": {"method": method}}
            first = " (the very first use compiles the kernels)" if number == 1 else ""
            _tell(f"{number} of {len(METHODS)}: {method}{first} ...")
            result = Trainer(settings.settle(asked), dataset, folder / method).fit()
            _tell(f"    {result.epochs} epochs in {result.seconds:.0f} seconds")
        _tell("Predicting every node, measuring, drawing the graph ...")
        evidence, data = gather([folder / method for method in METHODS])
    finally:
        torch.set_num_threads(threads)
    _show(title, evidence)
    words = ["graphdrop", "demo", "--out", str(out), "--seed", str(seed)]
    say(write_page(folder / "report.html", evidence, data, words))
    say(
        f"What you saw: two networks learned the classes of {title.replace('The ', 'the ')} from "
        f"{int(data.train_mask.sum())} labelled nodes, and how sure to be of each answer. ECE is "
        "how far their probabilities are from how often they come true; chance alone gives about "
        f"{evidence[-1].floor:.3f}. One seed does not tell which of the two is better.\n"
        f"Look at it: open {folder / 'report.html'} in a browser, click a node, and move the "
        "threshold above which it refuses to answer.\n"
        "Type next, with your own tables: graphdrop train --nodes nodes.csv --edges edges.csv "
        "--label COLUMN --id COLUMN --out runs/mine && graphdrop predict runs/mine -o answers.csv"
    )
    output.result(
        folder=folder,
        report=folder / "report.html",
        runs=[{"folder": run.folder, "test": run.scores} for run in evidence],
    )


def _load_first() -> Dataset:
    """Load the first of the datasets that can be had."""
    from graphdrop.data import load_dataset  # noqa: PLC0415

    for name in DATASETS[:-1]:
        try:
            return load_dataset(name)
        except UnavailableError:
            _tell(f"{_title(name)} is not here and cannot be fetched: trying the next graph.")
    _tell("This is the synthetic graph, which is only like Cora: its scores are not Cora's.")
    return load_dataset(DATASETS[-1])


def _title(name: str) -> str:
    return SOURCES[name].title if name in SOURCES else f"The {name} graph"


def choose_folder(out: Path) -> Path:
    """This folder if it is new or empty, else the next with a number that is."""
    folder, number = out, 1
    while folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        number += 1
        folder = out.with_name(f"{out.name}-{number}")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _show(title: str, evidence: Sequence[RunEvidence]) -> None:
    from graphdrop.metrics.registry import PAVPU_THRESHOLD  # noqa: PLC0415

    seed = evidence[0].config.seed
    heading = f"{title}, seed {seed}, on the test nodes"
    table = Table(box=box.SIMPLE_HEAD, title=heading, title_justify="left")
    table.add_column("")
    for column in (*evidence[0].scores.shown(), "seconds"):
        table.add_column(column, justify="right")
    table.add_column("drop rate by layer")
    for run in evidence:
        rates = " ".join("none" if rate is None else f"{rate:.2f}" for rate in run.drop_rates)
        how = "learned" if run.config.model.method == settings.Method.GCN_BBGDC else "fixed"
        table.add_row(
            run.config.model.method.value,
            *(f"{value:.3f}" for value in run.scores.shown().values()),
            f"{run.seconds:.0f}",
            f"{rates}, {how}",
        )
    Console(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False).print(table)
    counts = " and ".join(str(run.prediction.samples) for run in evidence)
    say(
        f"They predict with {counts} Monte Carlo samples (GCN-DO: Monte Carlo DropOut), "
        "calibrated on the validation nodes. "
        f"PAvPU: certain up to {PAVPU_THRESHOLD:g} of the largest entropy."
    )


def _tell(text: str) -> None:
    say(text, file=sys.stderr)
