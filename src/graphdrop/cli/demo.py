"""`graphdrop demo`: DropOut against learned Graph DropConnect, with a table and a report."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from graphdrop import config as settings
from graphdrop.cli import output
from graphdrop.cli.report import written
from graphdrop.data.sources import SOURCES, UnavailableError
from graphdrop.io.visible import Console, say

if TYPE_CHECKING:
    from torch_geometric.data import Data

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
    from graphdrop.report.runs import gather  # noqa: PLC0415 - --help needs no torch

    dataset = _available()
    folder = _fresh(out)
    data = dataset.data
    edges = data.edge_index.shape[1] // 2
    _say(
        f"{_title(dataset.name)}: {len(data.y)} nodes, {edges} edges. Everything goes to {folder}."
    )
    with _one_thread():
        _train(dataset, folder, seed)
        _say("Predicting every node, measuring, drawing the graph ...")
        evidence, data = gather([folder / method for method in METHODS])
    _show(dataset.name, evidence)
    words = ["graphdrop", "demo", "--out", str(out), "--seed", str(seed)]
    say(written(folder / "report.html", evidence, data, words))
    say("\n".join(_farewell(_title(dataset.name).replace("The ", "the "), data, folder)))
    output.result(
        folder=folder,
        report=folder / "report.html",
        runs=[{"folder": run.folder, "test": run.scores} for run in evidence],
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    """On so small a graph a second thread gains little, and loses much where cores are busy."""
    import torch  # noqa: PLC0415 - --help needs no torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _train(dataset: Dataset, folder: Path, seed: int) -> None:
    from graphdrop.train import Trainer  # noqa: PLC0415

    for number, method in enumerate(METHODS, 1):
        asked = {"seed": seed, "data": {"dataset": dataset.name}, "model": {"method": method}}
        chosen = settings.settle(asked)
        first = " (the very first use compiles the kernels)" if number == 1 else ""
        _say(f"{number} of {len(METHODS)}: {method}{first} ...")
        result = Trainer(chosen, dataset, folder / method).fit()
        _say(f"    {result.epochs} epochs in {result.seconds:.0f} seconds")


def _available() -> Dataset:
    from graphdrop.data import load_dataset  # noqa: PLC0415

    for name in DATASETS[:-1]:
        try:
            return load_dataset(name)
        except UnavailableError:
            _say(f"{_title(name)} is not here and cannot be fetched: trying the next graph.")
    _say("This is the synthetic graph, which is only like Cora: its scores are not Cora's.")
    return load_dataset(DATASETS[-1])


def _title(name: str) -> str:
    return SOURCES[name].title if name in SOURCES else f"The {name} graph"


def _fresh(out: Path) -> Path:
    """This folder if it is new or empty, else the next with a number that is."""
    folder, number = out, 1
    while folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        number += 1
        folder = out.with_name(f"{out.name}-{number}")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _show(name: str, evidence: Sequence[RunEvidence]) -> None:
    from graphdrop.metrics.registry import PAVPU_THRESHOLD  # noqa: PLC0415

    seed = evidence[0].config.seed
    title = f"{_title(name)}, seed {seed}, on the test nodes"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
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


def _farewell(title: str, data: Data, folder: Path) -> list[str]:
    """Three lines for a newcomer: what this was, where to look, what to type next."""
    return [
        f"What you saw: two networks learned the classes of {title} from "
        f"{int(data.train_mask.sum())} labelled nodes, and how sure to be of each answer. ECE is "
        "how far their probabilities are from how often they come true; chance alone gives about "
        f"{_floor(folder):.3f}. One seed does not tell which of the two is better.",
        f"Look at it: open {folder / 'report.html'} in a browser, click a node, and move the "
        "threshold above which it refuses to answer.",
        "Type next, with your own tables: graphdrop train --nodes nodes.csv --edges edges.csv "
        "--label COLUMN --id COLUMN --out runs/mine && graphdrop predict runs/mine -o answers.csv",
    ]


def _floor(folder: Path) -> float:
    """The calibration error that chance alone gives, as the last run has simulated it."""
    result = json.loads((folder / METHODS[-1] / "result.json").read_text("utf-8"))
    return float(result["calibration"]["ece_floor"])


def _say(text: str) -> None:
    say(text, file=sys.stderr)


def add_to(app: typer.Typer) -> None:
    """Give the command `graphdrop` this verb."""
    app.command()(demo)
