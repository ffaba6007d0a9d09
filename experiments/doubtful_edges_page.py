"""The tables and the picture of ``python -m experiments edges``, from its lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import nan
from pathlib import Path
from statistics import fmean

import numpy as np
from matplotlib.figure import Figure

from experiments.comparisons import crossed, format_difference, t_difference
from experiments.controlled import outcome
from experiments.doubtful_edges import DEFAULT, PARTS
from experiments.evidence_page import with_passages
from experiments.plots import Curve, Panel, draw_figure, save_figure
from experiments.rendering import Rendering
from experiments.store import Record, Store
from experiments.tables import Table
from graphdrop.io.files import replace_file

REFERENCE = "GCN-DO"
PUBLISHED: Mapping[str, tuple[str, str]] = {
    "cora, Metattack 25 %": ("GCN, GCN-Jaccard, Pro-GNN", "47.5, 60.8, 69.7"),
    "citeseer, Metattack 25 %": ("GCN, GCN-Jaccard, Pro-GNN", "56.9, 59.9, 69.0"),
}
"""Accuracy (%) on the same files as Jin et al. (KDD 2020) print it, under protocol a."""
COLUMNS = (
    *("accuracy (%)", "accuracy, difference", "NLL", "NLL, difference"),
    *("ECE (%)", "its floor (%)", "AURC", "AUROC of planted edges", "p", "seeds"),
)
TITLES = {
    "attack": "Edges planted by Metattack, a quarter as many as there are",
    "milder": "Edges planted by Metattack, a tenth as many as there are, and none",
    "clean": "Graphs as they are",
    "random": "Edges added at random",
    "attribution": "Parts of the default",
}
Runs = Mapping[tuple[str, str, str], Mapping[int, Record]]
"""Records by graph, protocol and model, and by seed."""


def render(folder: Path) -> Rendering:
    """A table for every part and protocol that has runs, and the picture."""
    runs: dict[tuple[str, str, str], dict[int, Record]] = {}
    for record in Store(folder).records().values():
        cell = (record["graph"], record["protocol"], record["model"])
        runs.setdefault(cell, {})[record["seed"]] = record
    tables = {}
    for part, (graphs, protocols, models) in PARTS.items():
        for protocol in protocols:
            rows = [row for graph in graphs for row in _rows(runs, graph, protocol, models, part)]
            if rows:
                title = f"{TITLES[part]}; protocol {protocol}"
                tables[f"{part}-{protocol}"] = Table(title, COLUMNS, rows)
    return Rendering(tables, _figure(runs))


def write_page(page: Path, rendering: Rendering) -> list[Path]:
    """Renew the tables between the marks of a page, and its picture."""
    names = [f"{part}-{one}" for part, (_, protocols, _) in PARTS.items() for one in protocols]
    made: dict[str, Callable[[], str]] = dict.fromkeys(names, lambda: "No run yet.")
    made |= {name: partial(_without_title, table) for name, table in rendering.tables.items()}
    text = with_passages(page.read_text(encoding="utf-8"), made)
    replace_file(page, text.encode())
    figures = rendering.figures.items()
    return [page, *(save_figure(one, page.parent / "pictures" / name) for name, one in figures)]


def _without_title(table: Table) -> str:
    return table.to_markdown().partition("\n\n")[2].strip()


def _rows(
    runs: Runs, graph: str, protocol: str, models: Sequence[str], part: str
) -> list[tuple[str, list[tuple[str, ...]]]]:
    reference = {"clean": "closed form, one rate", "attribution": DEFAULT}.get(part, REFERENCE)
    rows = []
    for model in models:
        own = runs.get((graph, protocol, model), {})
        if not own or (part == "clean" and model == reference):
            continue
        cells = [_mean(own, "accuracy", 100.0, 1), ("",), _mean(own, "nll", 1.0, 3), ("",)]
        if model != reference:
            other = runs.get((graph, protocol, reference), {})
            cells[1] = _difference(own, other, "accuracy", 100.0, 1)
            cells[3] = _difference(own, other, "nll", 1.0, 3)
        floors = fmean(100.0 * record["ece_floor"]["mean"] for record in own.values())
        found = [r["planted_auroc"] for r in own.values() if "planted_auroc" in r]
        cells += [
            _mean(own, "ece", 100.0, 1),
            (f"{floors:.1f}",),
            _mean(own, "aurc", 1.0, 3),
            (f"{fmean(found):.3f}" if found else "",),
            (_p_values(own),),
            (str(len(own)),),
        ]
        rows.append((f"{graph}: {model}", cells))
    if rows and protocol == "a":
        blank = [("",)] * (len(COLUMNS) - 1)
        if graph in PUBLISHED:
            names, accuracies = PUBLISHED[graph]
            rows.append((f"{graph}: {names}, as published", [(accuracies,), *blank]))
    return rows


def _p_values(runs: Mapping[int, Record]) -> str:
    found = [record["edges_p"] for record in runs.values() if "edges_p" in record]
    return f"{max(found):.1g}" if found else ""


def _mean(runs: Mapping[int, Record], score: str, factor: float, digits: int) -> tuple[str, ...]:
    return (f"{fmean(factor * record['test'][score] for record in runs.values()):.{digits}f}",)


def _difference(
    runs: Mapping[int, Record],
    others: Mapping[int, Record],
    score: str,
    factor: float,
    digits: int,
) -> tuple[str, ...]:
    """The difference with its interval over seeds and test nodes, or over nodes for one seed."""
    seeds = sorted(runs.keys() & others.keys())
    if not seeds:
        return ("",)
    values = np.stack(
        [factor * (outcome(runs[s], score) - outcome(others[s], score)) for s in seeds]
    )
    if len(seeds) > 1:
        return (format_difference(crossed(values), digits),)
    variance = float(values.var(ddof=1)) / values.size
    found = t_difference(float(values.mean()), variance, values.size - 1)
    return (format_difference(found, digits),)


SHARES = {0: "0 %", 10: "10 %", 25: "25 %"}
LABELS = {REFERENCE: REFERENCE, DEFAULT: "graphdrop's default"}


def _figure(runs: Runs) -> dict[str, Figure]:
    """Accuracy and calibration against the share of planted edges."""
    scores = {"accuracy": ("test accuracy (%)", 100.0), "ece": ("calibration error (%)", 100.0)}
    panels = list[Panel]()
    for score, (label, factor) in scores.items():
        for name in ("cora", "citeseer"):
            curves = []
            for model, shown in LABELS.items():
                by_share = {
                    share: runs.get((f"{name}, Metattack {text}", "a", model), {})
                    for share, text in SHARES.items()
                }
                if all(by_share.values()):
                    seeds = sorted(set[int]().union(*by_share.values()))
                    values = [
                        [
                            factor * found[seed]["test"][score] if seed in found else nan
                            for found in by_share.values()
                        ]
                        for seed in seeds
                    ]
                    curves.append(Curve(shown, list(SHARES), values))
            if curves:
                title = name.capitalize()
                panels.append(Panel(title, "planted edges, share of all (%)", label, curves))
    if not panels:
        return {}
    note = (
        "Metattack, training labels fit the weights (protocol a). Bands: one deviation over seeds."
    )
    return {"doubtful-edges": draw_figure(panels, columns=2, note=note)}
