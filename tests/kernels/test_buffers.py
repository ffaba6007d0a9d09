"""The memory of a large result that is gone serves the next, never one beside a live one."""

import mmap
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from graphdrop.graph import Graph
from graphdrop.kernels import aggregate, release_memory
from graphdrop.kernels.buffers import HUGE_PAGE, LEAST_BYTES, Pool

pytestmark = pytest.mark.skipif(
    not hasattr(mmap, "MADV_HUGEPAGE"), reason="large results are torch's own on this system"
)
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


def test_threads_never_get_one_place_at_once(pool: Pool) -> None:
    def use(number: int) -> bool:
        mine = pool.empty(ROWS, 128).fill_(number)
        return bool((mine[::4096] == number).all())

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(use, range(40)))
    lent, idle = pool.sizes()
    assert lent == 0
    assert 0 < idle <= 4 * PLACE


def test_a_training_step_takes_its_memory_once() -> None:
    release_memory()
    graph = Graph.from_edge_index(torch.randint(0, ROWS, (2, 1000)), ROWS)
    x = torch.ones(ROWS, 128, requires_grad=True)
    places = set()
    for _ in range(3):
        out = aggregate(graph, x)
        out.backward(torch.ones_like(out))  # type: ignore[no-untyped-call]
        assert x.grad is not None
        places |= {out.data_ptr(), x.grad.data_ptr()}
        del out
        x.grad = None
    assert len(places) == 2
