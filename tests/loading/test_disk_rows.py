"""Rows of a memory-mapped array are asked for where they are not in memory, and nowhere else."""

import ctypes
from pathlib import Path

import numpy as np
import pytest
import torch

from graphdrop.io import read_ahead
from graphdrop.loading import disk_rows
from graphdrop.loading.filtering import _rows


@pytest.mark.parametrize("in_memory", [False, True])
def test_only_rows_on_disk_are_asked_for(
    in_memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = disk_rows._calls()
    if calls is None:
        pytest.skip("this system has no madvise or no /proc/self/maps")
    asked: list[np.ndarray] = []
    advise_rows = disk_rows._advise_rows

    def mincore(_begin: int, _size: int, page: int) -> int:
        ctypes.memset(page, int(in_memory), 1)
        return 0

    def noted(rows: np.ndarray, *rest: object) -> None:
        asked.append(rows)
        advise_rows(rows, *rest)

    monkeypatch.setattr(disk_rows, "_calls", lambda: (calls[0], mincore))
    monkeypatch.setattr(disk_rows, "_advise_rows", noted)
    monkeypatch.setattr(read_ahead, "LEAST_BYTES", 1)
    values = np.random.default_rng(0).standard_normal((500, 100), dtype=np.float32)
    np.save(tmp_path / "x.npy", values)
    mapped = torch.from_numpy(np.load(tmp_path / "x.npy", mmap_mode="c"))
    rows = torch.arange(0, 500, 7)
    for x in (mapped, torch.from_numpy(values)):  # no file backs the second
        assert np.array_equal(_rows(x, rows).numpy(), values[rows.numpy()])
    assert [one.tolist() for one in asked] == ([] if in_memory else [rows.tolist()])
