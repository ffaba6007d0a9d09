"""Features can be moved into huge pages, which changes where they lie and nothing else."""

import sys
from pathlib import Path

import pytest
import torch

from graphdrop.graph import Graph
from graphdrop.kernels import aggregate, in_huge_pages

THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def huge_kilobytes() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("AnonHugePages"))


def test_the_sum_of_moved_features_is_the_same_to_the_bit() -> None:
    x = torch.randn(50_000, 96)
    graph = Graph.from_edge_index(torch.randint(0, len(x), (2, 1000)), len(x))
    moved = in_huge_pages(x)
    assert torch.equal(moved, x)
    assert moved.data_ptr() != x.data_ptr()
    assert torch.equal(aggregate(graph, moved), aggregate(graph, x))


@pytest.mark.skipif(
    sys.platform != "linux" or not THP.exists() or "[never]" in THP.read_text(),
    reason="this system gives no huge pages",
)
def test_large_features_lie_in_huge_pages() -> None:
    before = huge_kilobytes()
    moved = in_huge_pages(torch.ones(60_000, 256))
    assert huge_kilobytes() - before > moved.numel() * 4 // 1024 // 2


@pytest.mark.parametrize("x", [torch.ones(3), torch.ones(3, 2, dtype=torch.float64)])
def test_what_is_no_float32_matrix_is_refused(x: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"float32 matrix on the CPU; got torch\.float"):
        in_huge_pages(x)
