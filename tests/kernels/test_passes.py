"""Loops give the same bits on any number of threads, callers and processes, without much memory."""

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numba
import pytest
import torch

from contracts import forks, patience, step_under_limit
from contracts.workers import digest, digests_of_threads
from graphdrop.graph.masks import Kind
from graphdrop.kernels import loops

TESTS = Path(__file__).parents[1]


@pytest.fixture
def threads() -> Iterator[None]:
    """Puts torch's number of threads back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("seed", [0, 1])
def test_one_and_two_threads_give_the_same_bits(seed: int) -> None:
    digests = set()
    for count in (1, 2, 1, 2):
        torch.set_num_threads(count)
        digests.add(digest(seed))
        assert numba.get_num_threads() == min(count, numba.config.NUMBA_NUM_THREADS)
        assert torch.get_num_threads() == count
    assert len(digests) == 1


def test_four_callers_at_once_get_what_each_would_get_alone() -> None:
    seeds = range(24)
    alone = [digest(seed) for seed in seeds]
    assert len(set(alone)) == len(alone)
    for _ in range(3):
        assert digests_of_threads(seeds) == alone


def test_spawned_processes_whose_first_use_is_from_four_threads_get_the_same_bits() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        shares = pool.map(digests_of_threads, [range(4), range(4, 8)])
    assert [*shares[0], *shares[1]] == [digest(seed) for seed in range(8)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_fork_before_use_works_and_after_use_says_what_to_do(when: str) -> None:
    finished = subprocess.run(
        [sys.executable, forks.__file__, when],
        env={**os.environ, "PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "2"},
        capture_output=True,
        check=False,
        text=True,
        timeout=patience.SECONDS,
    )
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize("name", ["sum_rows", "sum_rows_of_samples", "sum_rows_and_slopes"])
def test_no_two_processes_write_their_kernels_to_one_file(name: str) -> None:
    """Numba counts upwards, so that two that compile at once would overwrite each other."""
    file = getattr(loops, name)._cache._cache_file
    assert file._data_name(1) != file._data_name(1)


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the limit is set as it is done on Linux"
)
@pytest.mark.parametrize(
    ("kind", "per_edge"),
    [pytest.param(Kind.HARD, False, marks=pytest.mark.slow), (Kind.CONCRETE, True)],
)
def test_a_masked_pass_fits_where_no_array_of_masks_does(kind: Kind, per_edge: bool) -> None:
    finished = subprocess.run(
        [sys.executable, step_under_limit.__file__, kind, *["--per-edge"] * per_edge],
        # one arena and one thread: what malloc sets aside for others is no array of ours
        env={
            **os.environ,
            "PYTHONPATH": str(TESTS),
            "OMP_NUM_THREADS": "1",
            "MALLOC_ARENA_MAX": "1",
        },
        capture_output=True,
        check=False,
        text=True,
        timeout=patience.SECONDS,
    )
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout) == {
        "fused": True,
        "all messages at once": False,
        "n by n": False,
        "E by features": False,
    }
