"""Threads sleep while they wait on a busy machine, spin on a free one, and compute the same."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numba
import pytest
import torch

from contracts import patience
from contracts.workers import digest
from graphdrop.kernels import passes
from graphdrop.kernels.threads import (
    BUSY_SECONDS,
    CHOSEN_BY,
    FREE_SECONDS,
    CrowdedTeams,
    Waiting,
    runtimes,
)

linux = pytest.mark.skipif(
    not Path("/proc/thread-self/schedstat").exists(), reason="needs Linux's count of waiting time"
)


class Machine:
    """A clock, and how long the thread was queued, both set by hand."""

    def __init__(self) -> None:
        self.now = self.queued = 0.0
        self.asked = 0

    def read(self) -> float:
        self.asked += 1
        return self.queued

    def passes(self, seconds: float, busy: float) -> None:
        self.now += seconds
        self.queued += busy * seconds


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def waiting(machine: Machine) -> Iterator[Waiting]:
    waiting = Waiting(machine.read, lambda: machine.now)
    waiting.look()
    yield waiting
    for _ in range(2):  # the first may still measure a busy time
        machine.passes(FREE_SECONDS, busy=0.0)
        waiting.look()


def threads_of_the_process() -> int:
    return len(os.listdir("/proc/self/task"))


@linux
def test_threads_sleep_once_the_machine_is_busy_and_spin_when_it_is_free_again(machine, waiting):
    machine.passes(BUSY_SECONDS, busy=0.5)
    waiting.look()
    assert waiting.asleep
    machine.passes(FREE_SECONDS, busy=0.5)
    waiting.look()
    assert waiting.asleep
    machine.passes(FREE_SECONDS, busy=0.0)
    waiting.look()
    assert not waiting.asleep


@linux
def test_teams_of_more_threads_than_processors_live_until_they_are_released():
    digest(0)  # starts the runtimes
    assert runtimes()
    before = threads_of_the_process()
    teams = CrowdedTeams()
    asleep = threads_of_the_process() - before
    teams.release()
    # the thread that holds the teams is a member of each
    assert asleep >= 1 + len(runtimes()) * len(os.sched_getaffinity(0))
    deadline = time.monotonic() + patience.SECONDS
    while threads_of_the_process() > before:
        assert time.monotonic() < deadline, "released threads go on"
        time.sleep(0.01)


@linux
def test_sleeping_changes_neither_the_numbers_of_threads_nor_a_bit():
    spinning = digest(0)
    before = torch.get_num_threads(), numba.get_num_threads()
    teams = CrowdedTeams()
    try:
        assert digest(0) == spinning
        assert (torch.get_num_threads(), numba.get_num_threads()) == before
    finally:
        teams.release()


@pytest.mark.parametrize("threads", [1, 2])
def test_every_loop_of_several_threads_looks_and_one_thread_has_none_to_wait_for(
    threads, monkeypatch
):
    looks = []
    monkeypatch.setattr(passes.waiting, "look", lambda: looks.append(threads))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        digest(0)
    finally:
        torch.set_num_threads(before)
    assert bool(looks) == (threads > 1)


@linux
def test_how_a_user_wants_threads_to_wait_is_left_as_it_is():
    program = (
        "import importlib, os\n"
        "from graphdrop.kernels import threads\n"
        "for name in (None, *threads.CHOSEN_BY):\n"
        "    chosen = {name: 'passive' if 'OMP_W' in name else '100'} if name else {}\n"
        "    os.environ.update(chosen)\n"
        "    importlib.reload(threads)\n"
        "    print(threads.waiting._queued is threads.seconds_queued)\n"
        "    for key in chosen: del os.environ[key]\n"
    )
    environment = {name: value for name, value in os.environ.items() if name not in CHOSEN_BY}
    finished = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=True
    )
    assert finished.stdout.split() == [b"True", *[b"False"] * len(CHOSEN_BY)]
