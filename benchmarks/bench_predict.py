"""Prediction on Cora: 20 Monte Carlo samples against one pass with masks in expectation."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch_geometric import nn as pyg_nn

from graphdrop import load_dataset, predict
from graphdrop.config import Config
from graphdrop.nn.methods import Blueprint
from table import Report, Row
from timing import best_of

SAMPLES = 20
LIMITS = {2: 8.0, 4: 16.0}
"""By depth: so many passes at most may 20 samples cost."""
AGAINST_PYG = {2: 2.0, 4: 3.5}
"""By depth: so many passes of PyG's GCN in evaluation at most may they cost."""


def main() -> bool:
    data = load_dataset("cora").data
    features, classes = data.x.shape[1], int(data.y.max()) + 1
    report = Report("predict", f"{SAMPLES}-sample prediction of all nodes of Cora with GCN-BBGDC")
    for layers, limit in LIMITS.items():
        settings = Config(model={"method": "GCN-BBGDC", "layers": layers}).model
        ours = Blueprint(settings, features, classes, 0).build().eval()
        theirs = pyg_nn.GCN(features, settings.hidden, layers, classes, cached=True).eval()
        functions: dict[str, Callable[[], object]] = {
            "one pass": lambda ours=ours: ours(data.x, data.edge_index),
            "relaxed": lambda ours=ours: predict(ours, data, SAMPLES, temperature=0.67),
            "hard": lambda ours=ours: predict(ours, data, SAMPLES, masks="hard"),
            "PyG": lambda theirs=theirs: theirs(data.x, data.edge_index),
        }
        with torch.no_grad():
            best = best_of(functions, repeats=20)
        once = best["one pass"]
        for masks in ("relaxed", "hard"):
            what = f"{layers} layers: {SAMPLES} samples with {masks} masks / one pass"
            report.add(Row(what, best[masks] / once, limit, note=f"{1e3 * best[masks]:.3g} ms"))
            what = f"{layers} layers: {SAMPLES} samples with {masks} masks / one pass of PyG's GCN"
            report.add(Row(what, best[masks] / best["PyG"], AGAINST_PYG[layers]))
        note = f"{1e3 * once:.3g} and {1e3 * best['PyG']:.3g} ms"
        report.add(Row(f"{layers} layers: one pass / PyG's eval", once / best["PyG"], note=note))
    return report.finish()


if __name__ == "__main__":
    torch.set_num_threads(2)
    raise SystemExit(not main())
