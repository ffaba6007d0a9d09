"""Large results lie in huge pages; the memory of one that is gone serves the next."""

import re
import sys
from pathlib import Path

import pytest
import torch

from graphdrop.graph import Graph
from graphdrop.kernels import aggregate, in_huge_pages
from graphdrop.kernels.buffers import HUGE_PAGE, LEAST_BYTES, Pool

ROWS = LEAST_BYTES // 512


PLACE = LEAST_BYTES + HUGE_PAGE  # what ROWS rows of 128 numbers take, wherever they begin


@pytest.fixture
def pool() -> Pool:
    return Pool()


def test_a_result_takes_the_place_of_one_that_is_gone(pool: Pool) -> None:
    place = pool.empty(ROWS, 128).data_ptr()
    assert pool.empty(ROWS - 1, 128).data_ptr() == place
    assert place % HUGE_PAGE == 0


def test_whatever_still_reads_a_result_keeps_its_memory(pool: Pool) -> None:
    whole = pool.empty(ROWS, 128).fill_(1.0)
    rows, numbers = whole[5:7], whole[-1:].numpy()
    del whole
    pool.empty(ROWS, 128).fill_(2.0)
    assert (rows == 1.0).all()
    assert (numbers == 1.0).all()


def test_no_more_is_kept_than_was_in_use_at_once(pool: Pool) -> None:
    several = [pool.empty(ROWS, 128) for _ in range(2)]
    assert pool.sizes() == (2 * PLACE, 0)
    several.clear()
    assert pool.sizes() == (0, 2 * PLACE)
    small = pool.empty(ROWS // 4, 128)  # a place of more than twice its size is not for it
    assert pool.sizes() == (LEAST_BYTES // 4 + HUGE_PAGE, PLACE)
    assert small.shape == (ROWS // 4, 128)


def test_memory_can_be_given_back(pool: Pool) -> None:
    kept, gone = pool.empty(ROWS, 128), pool.empty(ROWS, 128)
    del gone
    assert pool.sizes() == (PLACE, PLACE)
    pool.release()
    assert pool.sizes() == (PLACE, 0)
    assert kept.fill_(1.0).sum() == kept.numel()


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


@pytest.mark.parametrize("x", [torch.ones(3), torch.ones(3, 2, dtype=torch.float64)])
def test_what_is_no_float32_matrix_is_refused(x: torch.Tensor) -> None:
    with pytest.raises(
        ValueError, match=r"x is torch\.float.*; it takes a float32 matrix on the CPU"
    ):
        in_huge_pages(x)
