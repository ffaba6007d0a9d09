"""A run's key: a hash of everything that can change its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphdrop.config import Config, auto
from graphdrop.data.sources import find_source, has_own_split
from graphdrop.data.store.manifest import MANIFEST
from graphdrop.data.tables.files import is_tables, table_paths

ALGORITHM = 1
"""The version of the algorithms; it changes when equal settings give other results."""

_WITHOUT_EFFECT = {"data": ("root",), "train": ("checkpoint_seconds", "tensorboard", "baselines")}
# Settings that came later: with these values a run is what it was without them, key and all.
_CAME_LATER: Mapping[str, Mapping[str, Any]] = {
    "model": {
        "architecture": "gcn",
        "norm_layer": "none",
        "jumping": "none",
        "heads": 8,
        "rate_draw": "layer",
        "orders": 8,
        "propagate": "features",
        "combine": "mean",
        "input_dropout": "same",
        "edges": "one-rate",
        "edge_level": 0.05,
    },
    "data": {"calibration": 0.0, "missing": "impute", "task": "auto"}
    | dict.fromkeys(
        (
            "edges",
            "label_column",
            "id_column",
            "feature_columns",
            "split_column",
            "split_by_time",
            "source_column",
            "target_column",
            "weight_column",
        ),
        "",
    ),
    "objective": {"agree": 0.0, "teach": 0.0, "sharpen": 0.5, "class_weights": "none"},
    "train": {
        "optimizer": "adam",
        "passes": 1,
        "average": 0.0,
        "batch_size": 0,
        "fan_out": "15,10,5",
        "sampler": "neighbor",
        "importance": True,
    },
    "predict": {
        "dropout": True,
        "calibration": "none",
        "budget": "1%",
        "cost_ratio": 0.0,
        "standard_error": 0.0,
    },
}


# Settings that are gone: runs have what was their default, and its key.
_ARE_GONE: Mapping[str, Mapping[str, Any]] = {
    "model": {"prior_beta": 1.0, "bias": True},
    "train": {"min_epochs": 0},
    "predict": {"pavpu_threshold": 0.5, "pavpu_axis": "fraction-of-largest"},
}


def settled(config: Config) -> dict[str, Any]:
    """All settings of a run but those that have no effect on its result, as plain values."""
    values = _with_effect(config, config.model_dump(mode="json"), auto.VERSION)
    if values["data"]["split"] == "default" and has_own_split(config.data.dataset):
        values["data"]["split"] = "public"
    if config.recipe == "paper":
        for section, gone in _ARE_GONE.items():
            values[section] |= gone
        for section, before in _CAME_LATER.items():
            for name, value in before.items():
                if values[section][name] == value:
                    del values[section][name]
    return values


def _with_effect(config: Config, values: dict[str, Any], auto_version: int) -> dict[str, Any]:
    """Plain values without settings that cannot change a result; a dataset has one name."""
    if values.pop("recipe", config.recipe) == "auto":
        values["recipe"] = f"auto {auto_version}"
    for section, names in _WITHOUT_EFFECT.items():
        for name in names:
            values.get(section, {}).pop(name, None)
    dataset = config.data.dataset
    if source := find_source(dataset):
        dataset = source.name
    elif Path(dataset).is_file():
        dataset = Path(dataset).stem  # its checksum is in the key
    values.setdefault("data", {})["dataset"] = dataset
    return values


def run_key(
    config: Config,
    *,
    watch: bool = False,
    checksum: str | None = None,
    auto_version: int = auto.VERSION,
) -> str:
    """The key of a run; with `watch` it also follows the total variation of its layers.

    It needs no data at hand: a known dataset is what its published checksums say, and of a file
    that is not there its `checksum` can be given. `auto_version` is the version of the recipe auto
    that chose what was not given, if that is not the current one.
    """
    everything = {
        "algorithm": ALGORITHM,
        "data": checksum or _checksum(config),
        # The recipe auto chooses whatever is not given.
        "settings": settled(config)
        if config.recipe == "paper"
        else _with_effect(
            config, {"seed": config.seed} | _without_public_split(config.asked()), auto_version
        ),
        **({"watch": True} if watch else {}),
    }
    return hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()[:24]


def _without_public_split(asked: dict[str, Any]) -> dict[str, Any]:
    """The settings asked for without ``split = "public"``, which earlier keys do not name."""
    data = asked.get("data", {})
    if data.get("split") != "public":
        return asked
    return asked | {"data": {name: value for name, value in data.items() if name != "split"}}


def _checksum(config: Config) -> str:
    dataset, edges = config.data.dataset, config.data.edges
    if source := find_source(dataset):
        return " ".join(file.sha256 for file in source.files)
    paths = [Path(dataset)]
    if (paths[0] / MANIFEST).is_file():  # it has the checksums of all arrays of a store
        paths = [paths[0] / MANIFEST]
    elif is_tables(dataset):
        paths = list(table_paths(dataset, edges or None))
    found = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if path.is_file()]
    return " ".join(found) if found else dataset
