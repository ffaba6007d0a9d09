"""Runs on a graph of 80 nodes, trained for a few epochs: as a user has them, in folders."""

from pathlib import Path
from typing import Any

import numpy as np

from graphdrop.config import settle
from graphdrop.config.recipes import merge_settings
from graphdrop.data.synthetic import synthetic_graph
from graphdrop.train import Trainer
from graphdrop.train.progress import Silent

NODES, CLASSES = 80, 3
SMALL: dict[str, Any] = {
    "recipe": "paper",
    "model": {"hidden": 8, "layers": 3},
    "train": {"epochs": 6, "evaluate_every": 2, "samples": 2},
    "predict": {"samples": 4},
}


def write_graph(path: Path, *, seed: int = 0, rotate: int = 0) -> Path:
    """An `.npz` file with a split; `rotate` gives the same graph another one."""
    data = synthetic_graph(NODES, CLASSES, num_features=30, words_per_node=6.0, seed=seed).data
    part = (np.arange(NODES) + rotate) % 4
    masks = {f"{name}_masks": (part == n)[None] for n, name in enumerate(("train", "val", "test"))}
    edges, x = data.edge_index.T.numpy(), data.x.numpy()
    np.savez(path, node_features=x, node_labels=data.y.numpy(), edges=edges, **masks)
    return path


def train(folder: Path, graph: Path, method: str = "GCN-BBGDC", **settings: Any) -> Path:
    """The folder of a finished run."""
    asked = {"data": {"dataset": str(graph)}, "model": {"method": method}}
    config = settle(merge_settings(SMALL, asked, settings))
    Trainer(config, run_folder=folder, progress=Silent()).fit()
    return folder
