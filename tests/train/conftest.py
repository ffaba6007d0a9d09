"""A graph so small that a run takes a moment, and the settings of such a run."""

from typing import Any

import pytest

from graphdrop.config import Config, settle
from graphdrop.data import Dataset, load_dataset
from graphdrop.data.synthetic import synthetic_graph


@pytest.fixture(scope="session")
def tiny() -> Dataset:
    """80 nodes, 3 classes, 30 features; do not change it."""
    graph = synthetic_graph(80, 3, num_features=30, words_per_node=6.0, feature_signal=0.6)
    return load_dataset(graph.data, split="random-fractions")


@pytest.fixture(scope="session")
def settings_of():
    """Settings of a small run, with changes such as `{"train": {"epochs": 3}}`."""

    def settings_of(method: str = "GCN-BBGDC", **changes: dict[str, Any]) -> Config:
        small: dict[str, dict[str, Any]] = {
            "data": {"dataset": "data"},
            "model": {"method": method, "layers": 2, "hidden": 8},
            "train": {"epochs": 6, "evaluate_every": 2, "samples": 2, "baselines": False},
            "predict": {"samples": 3},
        }
        merged = {key: small.get(key, {}) | changes.get(key, {}) for key in {**small, **changes}}
        merged["recipe"] = "paper"
        return settle(merged)

    return settings_of
