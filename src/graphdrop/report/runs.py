"""`report`: folders of runs as one page to open in a browser."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn
from torch_geometric.data import Data

from graphdrop.report.collect import collect
from graphdrop.report.html import write_report
from graphdrop.report.numbers import collect_numbers
from graphdrop.train.opening import Source, open_run, other_data

MOST = 8
"""The largest number of runs that colours and dashes distinguish."""


def report(
    runs: Sequence[str | Path],
    output: str | Path = "report.html",
    *,
    data: Source | None = None,
    model: nn.Module | None = None,
) -> Path:
    """Compare runs on the same nodes in an HTML page that needs no network and no server.

    Args:
        runs: their folders.
        output: the file to write.
        data: their graph again, where it was given to `Trainer` as one's own or lies elsewhere
            now: a PyG `Data`, what `load_dataset` returned, or the path of a file.
        model: a freshly built model, where they trained one that only you can build.

    Returns:
        The path of the file.

    Example::

        Trainer(Config(), data, "runs/a").fit()
        report(["runs/a"], data=data)
    """
    check_runs(runs)
    evidence, graph = gather(runs, data, model)
    given = "" if data is None else ", data=..."
    write_report(output, evidence, graph, command=f"report({[str(run) for run in runs]}{given})")
    return Path(output)


def check_runs(runs: Sequence[str | Path]) -> None:
    """Raise if there are too many runs, or the same run twice."""
    if isinstance(runs, (str, Path)):
        raise TypeError(f"runs is {str(runs)!r}: give a list of folders, such as [{str(runs)!r}]")
    if len(runs) > MOST:
        raise ValueError(f"{len(runs)} runs are given: a report compares up to {MOST}")
    folders = [Path(run).resolve() for run in runs]
    for number, run in enumerate(runs):
        if folders[number] in folders[:number]:
            raise ValueError(f"{run} is given twice: name every run once")


def gather(
    runs: Sequence[str | Path], data: Source | None = None, model: nn.Module | None = None
) -> tuple[list[Any], Data]:
    """A `RunEvidence` or `NumbersEvidence` for each run, and the graph of the last run."""
    if not runs:
        raise ValueError("runs is empty: a report needs at least one run")
    evidence: list[Any] = []
    for folder in map(Path, runs):
        opened = open_run(folder, data, copy.deepcopy(model))
        if not opened.same:
            raise ValueError(f"{other_data(folder)}; a report needs the same graph and split")
        made = collect_numbers if opened.numbers else collect
        evidence.append(made(folder, opened.config, opened.model, opened.data, opened.header))
    return evidence, opened.data
