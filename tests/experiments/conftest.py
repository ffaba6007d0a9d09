"""Settings of runs that take a fraction of a second, and records as a run would leave them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphdrop.config import Config, settle
from graphdrop.config.recipes import merged


@pytest.fixture
def tiny_config(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Config]:
    """Settings for a few epochs of a small network on the synthetic graph."""

    def config(seed: int = 0, **sections: dict[str, Any]) -> Config:
        small = {
            "seed": seed,
            "recipe": "paper",
            "data": {"dataset": "synthetic"},
            "model": {"method": "GCN-BBGDC", "layers": 3, "hidden": 4},
            "train": {"epochs": 4, "evaluate_every": 2, "samples": 2},
            "predict": {"samples": 2},
        }
        return settle(merged(small, sections))

    return config
