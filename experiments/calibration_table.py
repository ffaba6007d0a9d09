"""The tables of ``reproduce calibration``: calibration errors beside floor and published record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from experiments.calibrators import CALIBRATORS
from experiments.plots import Dots, draw_dots
from experiments.recipe import graph_name
from experiments.rendering import Rendering
from experiments.store import Record
from experiments.tables import Summary, Table, summarise
from experiments.target_runs import CellRuns, TargetRuns

RECORDS = {
    "cora": 2.29,
    "citeseer": 2.50,
    "pubmed": 1.90,
    "coauthor_cs": 1.34,
    "amazon_photo": 2.07,
}
"""ECE (%) of GETS on a GCN (Zhuang et al., ICLR 2025), the lowest published in this protocol."""
PUBLISHED = {("cora", "cagcn"): 3.22, ("cora", "gats"): 2.60}
"""ECE (%) of other calibrators on a GCN, from the same table."""
OURS = "GCN-BBGDC"


class View(NamedTuple):
    """A row of the table: what is predicted with which network."""

    name: str
    method: str
    masks: str


VIEWS = (
    View("GCN", "GCN-DO", "off"),
    View("Monte Carlo DropOut", "GCN-DO", "sampled"),
    View(OURS, OURS, "sampled"),
)
COLUMNS = {"none": "raw", "cagcn": "CaGCN", "gats": "GATS"}


def calibration(found: TargetRuns) -> Rendering:
    """ECE of every calibrator on every kind of network; and the best beside the record."""
    shown = [(runs, view) for runs in found.cells for view in _views(runs)]
    columns = [
        "accuracy (%), temperature",
        *(f"ECE (%), {COLUMNS.get(name, name)}" for name in CALIBRATORS),
        "published record (%)",
    ]
    rows = [
        (f"{graph_name(runs.cell.dataset)}, {view.name}", _cells(runs, view))
        for runs, view in shown
    ]
    best = [
        (graph_name(runs.cell.dataset), _best(runs, view))
        for runs, view in shown
        if view.name == OURS and graph_name(runs.cell.dataset) in RECORDS
    ]
    errors = _figure(found, shown)
    headings = ("record (%)", "best of ours, ECE (%)", "its floor (%)", "by temperature (%)", "")
    return Rendering(
        {
            found.target: Table(found.title, columns, rows, found.note()),
            f"{found.target}-record": Table(
                f"{found.title}: GCN-BBGDC beside the record", headings, best, found.note()
            ),
        },
        errors,
    )


def _figure(found: TargetRuns, shown: Sequence[tuple[CellRuns, View]]) -> dict[str, Figure]:
    """ECE of GCN-BBGDC by every calibrator, and of a plain GCN by temperature."""
    ours = [runs for runs, view in shown if view.name == OURS]
    plain = {runs.cell.dataset: runs for runs, view in shown if view.name == "GCN"}
    both = [runs for runs in ours if runs.cell.dataset in plain]
    if not both:
        return {}
    views = {view.name: view for view in VIEWS}
    series = [
        (f"{OURS}, {COLUMNS.get(name, name)}", views[OURS], name, both) for name in CALIBRATORS[1:]
    ]
    gcn = [plain[runs.cell.dataset] for runs in both]
    series.append(("GCN, temperature", views["GCN"], "temperature", gcn))
    dots = []
    for label, view, name, cells in series:
        found_ = [_over_splits(runs.records, view, name, "ece") for runs in cells]
        dots.append(Dots(label, [one.mean for one in found_], [one.deviation for one in found_]))
    graphs = [graph_name(runs.cell.dataset) for runs in both]
    floors = [_over_splits(r.records, views[OURS], "temperature", "ece_floor").mean for r in both]
    marks = {
        "published record": [RECORDS.get(graph, math.nan) for graph in graphs],
        "floor, temperature": floors,
    }
    label = "calibration error, 10 bins (%)"
    return {found.target: draw_dots(graphs, dots, label, marks=marks, quick=found.quick)}


def _views(runs: CellRuns) -> Sequence[View]:
    return [view for view in VIEWS if view.method == runs.cell.row] if runs.records else []


def _over_splits(records: Sequence[Record], view: View, name: str, score: str) -> Summary:
    """A score in percent over the splits."""
    return summarise([100.0 * r["calibrators"][view.masks][name][score] for r in records])


def _cells(runs: CellRuns, view: View) -> list[tuple[str, ...]]:
    graph = graph_name(runs.cell.dataset)
    cells: list[tuple[str, ...]] = [
        (_spread(_over_splits(runs.records, view, "temperature", "accuracy")),)
    ]
    for name in CALIBRATORS:
        lines = [_spread(_over_splits(runs.records, view, name, "ece"))]
        lines.append(f"floor {_over_splits(runs.records, view, name, 'ece_floor').mean:.2f}")
        if view.name == "GCN" and (graph, name) in PUBLISHED:
            lines.append(f"published {PUBLISHED[graph, name]:.2f}")
        cells.append(tuple(lines))
    record = RECORDS.get(graph)
    return [*cells, ("none" if record is None else f"{record:.2f}",)]


def _best(runs: CellRuns, view: View) -> list[tuple[str, ...]]:
    record = RECORDS[graph_name(runs.cell.dataset)]
    errors = {name: _over_splits(runs.records, view, name, "ece") for name in CALIBRATORS}
    best = min(errors, key=lambda name: errors[name].mean)
    floor = _over_splits(runs.records, view, best, "ece_floor").mean
    verdict = "reached" if errors[best].mean <= record else "missed"
    if floor > record:
        verdict += "; the floor of a perfect forecaster lies above the record"
    return [
        (f"{record:.2f}",),
        (_spread(errors[best]), COLUMNS.get(best, best)),
        (f"{floor:.2f}",),
        (_spread(errors["temperature"]),),
        (verdict,),
    ]


def _spread(found: Summary) -> str:
    if found.count == 1:
        return f"{found.mean:.2f}"
    return f"{found.mean:.2f} ± {found.deviation:.2f}"
