"""Features can be moved into huge pages, which changes where they lie and nothing else."""

import re
import sys
from pathlib import Path

import pytest
import torch

from graphdrop.graph import Graph
from graphdrop.kernels import aggregate, in_huge_pages

THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def flags_of_memory_at(address: int) -> list[str]:
    """What the kernel was told about the mapping that an address lies in."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(found[1], 16) <= address < int(found[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return line.split()[1:]
    raise LookupError(f"no mapping holds {address:#x}")


def test_the_sum_of_moved_features_is_the_same_to_the_bit() -> None:
    x = torch.randn(90_000, 96)
    graph = Graph.from_edge_index(torch.randint(0, len(x), (2, 1000)), len(x))
    moved = in_huge_pages(x)
    assert torch.equal(moved, x)
    assert moved.data_ptr() != x.data_ptr()
    assert torch.equal(aggregate(graph, moved), aggregate(graph, x))


@pytest.mark.skipif(
    sys.platform != "linux" or not THP.exists() or "[never]" in THP.read_text(),
    reason="this system gives no huge pages",
)
def test_huge_pages_are_asked_for() -> None:
    moved = in_huge_pages(torch.ones(60_000, 256))
    middle = moved.data_ptr() + moved.nbytes // 2
    assert "hg" in flags_of_memory_at(middle)  # whether it gets them is the system's choice


def test_whatever_still_reads_a_result_keeps_its_memory() -> None:
    whole = in_huge_pages(torch.ones(80_000, 128))
    rows, numbers = whole[5:7], whole[-1:].numpy()
    del whole
    others = [in_huge_pages(torch.zeros(80_000, 128)) for _ in range(2)]
    assert (rows == 1.0).all()
    assert (numbers == 1.0).all()
    assert not any(other.any() for other in others)


@pytest.mark.parametrize("x", [torch.ones(3), torch.ones(3, 2, dtype=torch.float64)])
def test_what_is_no_float32_matrix_is_refused(x: torch.Tensor) -> None:
    with pytest.raises(
        ValueError, match=r"x is torch\.float.*; it takes a float32 matrix on the CPU"
    ):
        in_huge_pages(x)
