"""Opening a run, finished or not: its settings, its selected model and its data."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from torch import nn
from torch_geometric.data import Data

from graphdrop.config import Config
from graphdrop.data import Dataset, load_dataset
from graphdrop.train import inputs, provenance
from graphdrop.train.checkpoint import load_with_header
from graphdrop.train.folder import stored_config
from graphdrop.train.records import ModelNote, header_note

Source: TypeAlias = str | Path | Data | Dataset
"""A dataset by name, by path or as an object."""


class Opened(NamedTuple):
    """An opened run, ready for predictions."""

    config: Config
    model: nn.Module
    data: Data
    header: dict[str, Any]
    """The header of the model file."""
    same: bool
    """Whether the data is, bit for bit, what the run was trained on."""


def open_run(
    folder: str | Path, data: Source | None = None, model: nn.Module | None = None
) -> Opened:
    """Open the run in a folder; a dataset that its settings name must be unchanged.

    Args:
        folder: of the run.
        data: its graph, if it was given as a `Data` or has moved; or another graph, in which case
            `same` is false.
        model: a freshly built model, where the run trained one that only you can build.
    """
    config = stored_config(folder)
    network, header = load_with_header(folder, model)
    about = header_note(ModelNote, header, Path(folder))
    if about.task != "classes":
        raise ValueError(
            f"{folder} predicts {about.task}, not classes: open it in Python by load(folder) and "
            "predict(model, data, output=...)"
        )
    graph = _dataset(folder, config, data).data
    same = provenance.fingerprint(graph) == about.data.sha256
    if data is None and not same:
        raise ValueError(
            f"{config.data.dataset} is no longer the data that {folder} was trained on: its "
            "features, edges, labels or split have changed"
        )
    return Opened(config, network, graph, header, same)


def other_data(folder: str | Path) -> str:
    """The message for a run that is given other data than it was trained on."""
    return (
        f"the data given is not what {folder} was trained on: its features, edges, labels or split "
        "are others"
    )


def _dataset(folder: str | Path, config: Config, data: Source | None) -> Dataset:
    settings = config.data
    if isinstance(data, Dataset):
        return data
    if isinstance(data, (str, Path)):
        root = settings.root or None
        return load_dataset(data, root, settings.split, settings.split_seed)
    if data is None and settings.dataset == inputs.OWN:
        raise ValueError(
            f"{folder} was trained on a graph of your own, which it does not hold: give it again, "
            "as data=... or --dataset FILE"
        )
    return inputs.dataset_for(config, data)[1]
