"""Processes that an executor starts import `contracts`, which pytest alone has on its path."""

import os
from pathlib import Path

import pytest

import contracts


@pytest.fixture(autouse=True)
def contracts_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    tests, path = str(Path(contracts.__path__[0]).parent), os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", tests if not path else os.pathsep.join([tests, path]))
