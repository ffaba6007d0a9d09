"""Rows of a mapped array are read one by one, all in their order, or asked for, as advised."""

import ctypes
import mmap
from pathlib import Path

import numpy as np
import pytest
import torch

from graphdrop.io import read_ahead
from graphdrop.io.read_ahead import advise, ask_for


def reads_random(tensor: torch.Tensor) -> bool:
    """Whether the system's flags of this mapping say that it is read in random order."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            first, last = (int(end, 16) for end in words[0].split("-"))
            inside = first <= tensor.data_ptr() < last
        elif inside and words[0] == "VmFlags:":
            return "rr" in words
    raise AssertionError("no such mapping")


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux shows mappings there")
def test_the_system_is_told_how_a_mapped_array_is_read(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(read_ahead, "LEAST_BYTES", mmap.PAGESIZE)
    array = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (64, 4096))
    x = torch.from_numpy(array)
    advise(x, "rows")
    assert reads_random(x)
    advise(x, "all")
    assert not reads_random(x)
    advise(x[:, ::2], "rows")  # nothing that could be advised
    assert not reads_random(x)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="Linux shows mappings there")
@pytest.mark.parametrize("in_memory", [False, True])
def test_only_rows_on_disk_are_asked_for(
    in_memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[np.ndarray] = []
    library, ask = read_ahead._system(), read_ahead._ask_for_rows

    class System:
        madvise = library.madvise

        @staticmethod
        def mincore(_begin: int, _size: int, page: int) -> int:
            ctypes.memset(page, int(in_memory), 1)
            return 0

    def noted(rows: np.ndarray, *rest: object) -> None:
        asked.append(rows)
        ask(rows, *rest)

    monkeypatch.setattr(read_ahead, "_system", lambda: System)
    monkeypatch.setattr(read_ahead, "_ask_for_rows", noted)
    values = np.random.default_rng(0).standard_normal((500, 100), dtype=np.float32)
    np.save(tmp_path / "x.npy", values)
    mapped = torch.from_numpy(np.load(tmp_path / "x.npy", mmap_mode="c"))
    rows = torch.arange(0, 500, 7)
    for x in (mapped, torch.from_numpy(values)):  # no file backs the second
        ask_for(x, rows)
    assert [each.tolist() for each in asked] == ([] if in_memory else [rows.tolist()])
