"""Processes that an executor starts import what pytest alone has on its path."""

import os
from pathlib import Path

import pytest

import contracts


@pytest.fixture(autouse=True)
def contracts_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    tests, path = Path(contracts.__path__[0]).parent, os.environ.get("PYTHONPATH")
    paths = [str(tests), str(tests.parent), *([path] if path else [])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
