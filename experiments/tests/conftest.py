"""Settings of runs that take a fraction of a second, and records as a run would leave them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from experiments.__main__ import main
from graphdrop.config import Config, settle
from graphdrop.config.recipes import merge_settings


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
        return settle(merge_settings(small, sections))

    return config


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Run `python -m experiments`; its exit code, stdout and stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run
