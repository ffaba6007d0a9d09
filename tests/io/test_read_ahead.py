"""Rows of a mapped array are read one by one, or all of them in their order, as advised."""

import mmap
from pathlib import Path

import numpy as np
import pytest
import torch

from graphdrop.io import read_ahead
from graphdrop.io.read_ahead import advise


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
