"""`write_report`: an HTML report of runs, in one file without external resources.

The page's own files are in `page/`. What it shows goes into it as JSON, large arrays as base64 of
their bytes; its script makes all text as text nodes, so that no name can become markup.
"""

from __future__ import annotations

import base64
import html
import json
import math
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.config.toml import differences
from graphdrop.data.names import Names
from graphdrop.data.sources import find_source, short_name
from graphdrop.io.files import replace_file
from graphdrop.metrics.registry import METRICS, PAVPU_THRESHOLD
from graphdrop.report.answered import (
    class_figures,
    confusion,
    look_first,
    mistakes,
    ranking_views,
    rare_views,
    refusal,
    set_figures,
)
from graphdrop.report.collect import Evidence, RunEvidence
from graphdrop.report.conclusions import conclusions
from graphdrop.report.layout import layout
from graphdrop.report.numbers import NumbersEvidence, page_of_numbers
from graphdrop.sampling import RankedEdges

SCRIPTS = (
    "data.js",
    "help.js",
    "chart.js",
    "figures.js",
    "selective.js",
    "graph.js",
    "edges.js",
    "node.js",
    "main.js",
)
MOST_NODES, SAMPLED_NODES = 30_000, 3_000
"""A larger graph is shown by so many nodes, around so many test nodes."""
FIRST_EDGES = 10
"""The number of edges that are listed, the least trusted ones."""
LARGEST = 65535
"""The number of steps in which probabilities and positions are stored."""


def write_report(
    path: str | Path,
    runs: Sequence[Evidence],
    data: Data,
    *,
    command: str = "",
) -> None:
    """Write a report on runs that were trained on the same data.

    Args:
        path: the file, best ending in `.html`.
        runs: the results of `collect`.
        data: their graph.
        command: the command line, to be shown in the report.
    """
    replace_file(Path(path), page(runs, data, command=command).encode())


def page(runs: Sequence[Evidence], data: Data, *, command: str = "") -> str:
    """The text of the report."""
    _check_same_graph(runs)
    names = name_runs([run.folder for run in runs])
    numbers = [run for run in runs if isinstance(run, NumbersEvidence)]
    if numbers:
        return page_of_numbers(numbers, names, data, command=command)
    return _page_of_classes([r for r in runs if isinstance(r, RunEvidence)], names, data, command)


def _page_of_classes(
    runs: Sequence[RunEvidence], names: Sequence[str], data: Data, command: str
) -> str:
    name = dataset_name(runs[0])
    shown = choose_shown_nodes(data)
    content = {
        "command": command,
        "dataset": _dataset(runs[0], data, name),
        "graph": _graph(data, shown),
        "metrics": _metrics(runs),
        "differences": _differences(runs),
        "conclusions": conclusions(runs, names, data),
        "runs": [_run(run, label, data, shown) for run, label in zip(runs, names, strict=True)],
    }
    files = resources.files(__package__) / "page"
    read = {n: (files / n).read_text("utf-8") for n in ("page.html", "style.css", *SCRIPTS)}
    parts = {
        "title": html.escape(f"{name}: {', '.join(names)}"),
        "style": read["style.css"],
        "data": embed_json(content),
        "script": "\n".join(read[script] for script in SCRIPTS),
    }
    # In one go: nothing that is put in is looked at again.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], read["page.html"])


def _check_same_graph(runs: Sequence[Evidence]) -> None:
    if not runs:
        raise ValueError("runs is empty: a report needs at least one run")
    first = runs[0]
    for run in runs[1:]:
        if run.graph_sha256 == first.graph_sha256:
            continue
        here, there = dataset_name(first), dataset_name(run)
        other = there if there != here else f"another split or version of {here}"
        raise ValueError(
            f"{first.folder} was trained on {here} and {run.folder} on {other}: a report compares "
            "runs on the same nodes, edges, labels and split, so write one for each"
        )


def dataset_name(run: Evidence) -> str:
    """The name of a run's dataset; of a file, without folder and ending."""
    return short_name(run.config.data.dataset)


def name_runs(folders: Sequence[Path]) -> list[str]:
    """A name for each run: that of its folder, or the whole path if names are equal."""
    short = [folder.resolve().name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]


def embed_json(content: Any) -> str:
    """JSON escaped for a `<script>` element."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text  # json.dumps itself escapes all that is not ASCII, U+2028 among it


def pack_array(values: NDArray[Any] | Tensor, kind: str) -> dict[str, str]:
    """An array as the page reads it: the name of the typed array, and its bytes in base64."""
    array = np.ascontiguousarray(values, np.dtype(kind).newbyteorder("<"))
    return {"kind": kind, "base64": base64.b64encode(array.tobytes()).decode()}


def _pack_fractions(values: Tensor) -> dict[str, str]:
    return pack_array((values.double() * LARGEST).round().clamp(0, LARGEST), "uint16")


def _metrics(runs: Sequence[RunEvidence]) -> list[dict[str, Any]]:
    """The columns of the summary: the metrics of the registry that every run has."""
    return [
        {
            "name": metric.name,
            "title": metric.title,
            "percent": metric.percent,
            "higher_is_better": metric.higher_is_better,
            "help": metric.help,
        }
        for metric in METRICS["classes"]
        if metric.shown and all(metric.name in run.scores for run in runs)
    ]


def _dataset(run: RunEvidence, data: Data, name: str) -> dict[str, Any]:
    names = Names.of(data)
    return {
        "title": source.title if (source := find_source(name)) else name,
        "files": run.data_files,
        "nodes": len(data.y),
        "edges": len(_list_pairs(data)),
        "classes": int(run.prediction.probabilities.shape[1]),
        "class_names": names.classes,
        "tested": int(data.test_mask.sum()),
    }


def _list_pairs(data: Data) -> NDArray[np.int64]:
    """Every edge between two nodes once, `[m, 2]`."""
    first, second = data.edge_index.numpy()
    low, high, nodes = np.minimum(first, second), np.maximum(first, second), max(1, len(data.y))
    number = np.sort((low * nodes + high)[low < high])  # np.unique hashes, 20 times as slowly
    number = number[np.flatnonzero(np.diff(number, prepend=-1))]
    return np.stack([number // nodes, number % nodes], 1)


def choose_shown_nodes(data: Data) -> Tensor | None:
    """The nodes of the picture: some test nodes and what they are joined to; None for all."""
    nodes = len(data.y)
    if nodes <= MOST_NODES:
        return None
    source, destination = data.edge_index
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(0))
    first = order[data.test_mask[order]][:SAMPLED_NODES] if data.test_mask.any() else order
    shown = torch.zeros(nodes, dtype=torch.bool)
    shown[first[:SAMPLED_NODES]] = True
    around = source[shown[destination]].unique()
    around = around[~shown[around]][: MOST_NODES - int(shown.sum())]
    shown[around] = True
    return shown.nonzero().flatten()


def _part(data: Data, shown: Tensor) -> Data:
    """The nodes that are shown, and the edges between them."""
    number = torch.full((len(data.y),), -1)
    number[shown] = torch.arange(len(shown))
    ends = number[data.edge_index]
    part = Data(edge_index=ends[:, (ends >= 0).all(0)], y=data.y[shown])
    for name in ("train_mask", "val_mask", "test_mask"):
        part[name] = data[name][shown]
    return part


def _graph(data: Data, shown: Tensor | None) -> dict[str, Any]:
    ids = Names.of(data).ids
    if shown is not None:
        ids = tuple(str(v) if ids is None else ids[v] for v in shown.tolist())
        data = _part(data, shown)
    nodes = len(data.y)
    pairs = _list_pairs(data)
    place = torch.from_numpy(layout(pairs.T, nodes))
    part = torch.zeros(nodes, dtype=torch.uint8)
    for number, mask in enumerate((data.train_mask, data.val_mask, data.test_mask), 1):
        part[mask] = number
    return {
        "place": _pack_fractions((place + 1) / 2),
        "pairs": pack_array(pairs, "uint16" if nodes <= LARGEST else "uint32"),
        "label": pack_array(data.y, "int16"),
        "part": pack_array(part, "uint8"),
        "ids": ids,
    }


def _edges(edges: RankedEdges, data: Data, shown: Tensor | None) -> dict[str, Any]:
    """The least trusted edges, how many lie below each threshold, and those of the picture."""
    pairs, nodes = torch.from_numpy(_list_pairs(data)).T, max(1, len(data.y))
    low, high = edges.edge_index.sort(0).values
    # of several rates between two nodes the lowest counts
    keys, keep = low * nodes + high, torch.ones(pairs.shape[1], dtype=edges.keep.dtype)
    keep.scatter_reduce_(
        0, torch.searchsorted(pairs[0] * nodes + pairs[1], keys), edges.keep, "amin"
    )
    if shown is not None:
        keep = keep[torch.isin(pairs, shown).all(0)]
    below = [int((edges.keep < percent / 100).sum()) for percent in range(101)]
    return {
        "count": len(edges),
        "below": below,
        "keep": _pack_fractions(keep),
        "names": edges.number_names,
        "first": [
            {
                "ends": edges.ends(i),
                "keep": float(edges.keep[i]),
                "numbers": edges.numbers[i].tolist(),
            }
            for i in range(min(FIRST_EDGES, len(edges)))
        ],
    }


def _differences(runs: Sequence[RunEvidence]) -> list[list[str]]:
    """The settings in which runs differ, each with its value in every run."""
    keys = dict.fromkeys(key for run in runs[1:] for key in differences(runs[0].config, run.config))
    rows = []
    for key in keys:
        section, _, field = key.rpartition(".")
        owners = [getattr(run.config, section) if section else run.config for run in runs]
        rows.append([key, *(str(getattr(owner, field)) for owner in owners)])
    return rows


def _run(run: RunEvidence, name: str, data: Data, shown: Tensor | None) -> dict[str, Any]:
    config, prediction = run.config, run.prediction

    def of(values: Tensor) -> Tensor:
        return values if shown is None else values[shown]

    figures = set_figures(run, data)
    return {
        "name": name,
        "sha256": run.data_sha256,
        "features": run.num_features,
        "folder": str(run.folder),
        "method": config.model.method.value,
        "layers": config.model.layers,
        "seed": config.seed,
        "samples": prediction.samples,
        "standard_error": None
        if math.isnan(prediction.largest_error)
        else prediction.largest_error,
        "masks": config.predict.masks,
        "decision": config.predict.decision,
        "pavpu_threshold": PAVPU_THRESHOLD,
        "pavpu_axis": "fraction-of-largest",
        "scores": run.scores,
        "uncalibrated": run.uncalibrated,
        "floor": run.floor,
        "drop_rates": run.drop_rates,
        "edges": None if run.edges is None else _edges(run.edges, data, shown),
        "selected_epoch": run.selected_epoch,
        "seconds": run.seconds,
        "versions": run.versions,
        "training": run.training,
        "reliability": run.reliability,
        "raw_reliability": run.raw_reliability,
        "pavpu": run.pavpu,
        "risk": run.risk,
        "smoothing": run.smoothing,
        "predicted": pack_array(of(run.decided), "uint16"),
        "probability": _pack_fractions(of(prediction.probabilities)),
        "entropy": pack_array(of(prediction.entropy), "float32"),
        "epistemic": pack_array(of(prediction.epistemic), "float32"),
        "sets": None if run.sets is None else pack_array(of(run.sets.members), "uint8"),
        "sets_approximate": run.sets is None or run.sets.approximate,
        "set_figures": None if figures is None else figures._asdict(),
        "rare": [
            view._asdict() | {"figures": view.figures._asdict()} for view in rare_views(run, data)
        ],
        "ranking": ranking_views(run, data),
        "confusion": confusion(run, data),
        "mistakes": mistakes(run, data),
        "first": look_first(run, data),
        "classes": class_figures(run, data),
        "rule": {
            "by": run.trust.by,
            "threshold": run.trust.threshold,
            "coverage": run.trust.coverage,
            "chosen_on": run.trust.chosen_on,
            **refusal(run, data)._asdict(),
        },
    }
