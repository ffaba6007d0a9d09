"""The table and figure of ``reproduce sets``: coverage and size, beside TorchCP's sizes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from experiments.plots import Dots, draw_dots
from experiments.recipe import graph_name
from experiments.rendering import Rendering
from experiments.tables import Table, signed
from experiments.target_runs import CellRuns, TargetRuns
from graphdrop.inference.sets import SetMethod

COLUMNS = (
    "coverage (%)",
    "size",
    "size by TorchCP",
    "by TorchCP, nodes without neighbors joined to themselves",
    "lowest class (%)",
    "by class: coverage (%)",
    "by class: lowest (%)",
    "by class: size",
)


@cache
def torchcp_sizes() -> dict[str, Any]:
    """Mean sizes of TorchCP by graph and score, measured by `benchmarks/torchcp_sets.py`.

    `sizes` has those of TorchCP as it is, `sizes_joined` those with nodes without neighbors joined
    to themselves.
    """
    path = Path(__file__).with_name("torchcp.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def sets(found: TargetRuns) -> Rendering:
    """Coverage, size, and coverage by class of every score on every graph."""
    shown = [runs for runs in found.cells if runs.records]
    rows = [
        (f"{graph_name(runs.cell.dataset)}, {kind.value.upper()}", _cells(runs, kind))
        for runs in shown
        for kind in SetMethod
    ]
    note = (
        "Mean ± deviation over random divisions of the test nodes of one network. The lowest class "
        f"is that of least coverage over all divisions. {found.note()}"
    )
    table = Table(found.title, COLUMNS, rows, note if shown else found.note())
    if not shown:
        return Rendering({found.target: table})
    dots = [
        Dots(
            kind.value.upper(),
            [runs.records[0]["sets"][kind.value]["all"]["size"] for runs in shown],
            [runs.records[0]["sets"][kind.value]["all"]["size_deviation"] for runs in shown],
        )
        for kind in SetMethod
    ]
    groups = [graph_name(runs.cell.dataset) for runs in shown]
    figure = draw_dots(groups, dots, "mean size of a set", quick=found.quick)
    return Rendering({found.target: table}, {found.target: figure})


def _cells(runs: CellRuns, kind: SetMethod) -> list[tuple[str, ...]]:
    counted = runs.records[0]["sets"][kind.value]
    whole, by_class = counted["all"], counted["by_class"]
    graph, known = graph_name(runs.cell.dataset), torchcp_sizes()
    other = known["sizes"].get(graph, {}).get(kind.value)
    joined = known["sizes_joined"].get(graph, {}).get(kind.value, other)
    return [
        _spread(whole, "coverage", 100.0),
        _spread(whole, "size", 1.0),
        _beside(whole["size"], other),
        _beside(whole["size"], joined),
        (f"{100.0 * whole['lowest_class']:.1f}",),
        _spread(by_class, "coverage", 100.0),
        (f"{100.0 * by_class['lowest_class']:.1f}",),
        _spread(by_class, "size", 1.0),
    ]


def _beside(size: float, other: float | None) -> tuple[str, ...]:
    """TorchCP's size, and how far ours is from it."""
    if other is None:
        return ("not measured",)
    return f"{other:.3f}", f"ours {signed(100.0 * (size / other - 1.0), 1)} %"


def _spread(counted: dict[str, float], name: str, factor: float) -> tuple[str, ...]:
    digits = 2 if factor > 1 else 3
    mean, deviation = (factor * counted[key] for key in (name, f"{name}_deviation"))
    return (f"{mean:.{digits}f} ± {deviation:.{digits}f}",)
