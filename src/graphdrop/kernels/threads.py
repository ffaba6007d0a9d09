"""Passive waiting of OpenMP threads on a busy machine.

A thread that has done its share of a loop spins until the others have done theirs. That is the
fastest way on a free machine. On a busy one the others may not be running at all, and the thread
that spins keeps them from it: a loop of microseconds takes as long as the system's time slices.

GNU's OpenMP stops spinning by itself as soon as it manages more threads than there are processors
(its manual, under GOMP_SPINCOUNT). So while the machine is busy, an idle thread here holds a team
that many, which sleep. The loops keep their numbers of threads, hence their results. On two cores
that some fifteen other threads wanted, a training step on Cora took 15 ms so, and 1.7 s without.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

CHOSEN_BY = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
"""Environment variables that configure waiting; if one is set, nothing is changed."""
BUSY_SHARE = 0.05
"""A machine is busy if a runnable thread waits for a processor this fraction of the time."""
BUSY_SECONDS, FREE_SECONDS = 0.1, 1.0
"""The measuring times before threads stop spinning and before they spin again."""


class CrowdedTeams:
    """A team of more threads than processors in every OpenMP runtime of GNU's, all of them asleep.

    A process often has two runtimes: the one that torch brings along and the system's.
    """

    def __init__(self) -> None:
        self._end = threading.Event()
        started = threading.Event()
        self._thread = threading.Thread(
            target=self._hold, args=(started,), name="graphdrop-crowded-teams", daemon=True
        )
        self._thread.start()
        started.wait()

    def _hold(self, started: threading.Event) -> None:
        try:
            for path in runtimes():
                openmp = ctypes.CDLL(path)
                # any function of OpenMP will do: the team stays after it has been called
                function = ctypes.cast(openmp.omp_get_num_threads, ctypes.c_void_p)
                openmp.GOMP_parallel(function, None, openmp.omp_get_num_procs() + 1, 0)
        finally:
            started.set()
        self._end.wait()

    def release(self) -> None:
        """End the extra threads, so that others spin again."""
        self._end.set()
        self._thread.join()


class Waiting:
    """Chooses how OpenMP's threads wait, by how long the calling thread was queued.

    Args:
        queued: the seconds that the calling thread has waited for a processor since it began, or
            ``None`` where the system does not say; then nothing is ever changed.
        clock: seconds.
    """

    def __init__(
        self,
        queued: Callable[[], float | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queued, self._clock = queued, clock
        self._sample = threading.local()
        self._deciding = threading.Lock()
        self._teams: CrowdedTeams | None = None

    @property
    def asleep(self) -> bool:
        """Whether threads that wait go to sleep at once."""
        return self._teams is not None

    def look(self) -> None:
        """Measure from time to time; called before every loop, hence cheap."""
        now = self._clock()
        since, before = getattr(self._sample, "last", (-FREE_SECONDS, None))
        if now - since < (FREE_SECONDS if self.asleep else BUSY_SECONDS):
            return
        queued = self._queued()
        self._sample.last = now, queued
        if queued is not None and before is not None:
            self._decide(busy=queued - before > BUSY_SHARE * (now - since))

    def _decide(self, busy: bool) -> None:
        with self._deciding:
            if busy and self._teams is None:
                self._teams = CrowdedTeams()
            elif not busy and self._teams is not None:
                self._teams.release()
                self._teams = None


def runtimes() -> list[str]:
    """The files of GNU's OpenMP that this process has loaded."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    paths = {line.split(maxsplit=5)[5] for line in maps if "/libgomp" in line}
    return sorted(path for path in paths if Path(path).is_file())


def seconds_queued() -> float | None:
    """How long the calling thread has waited for a processor, as Linux counts it."""
    try:
        counted = Path("/proc/thread-self/schedstat").read_text(encoding="ascii")
    except OSError:
        return None
    return int(counted.split()[1]) / 1e9


def _never() -> None:
    return None


waiting = Waiting(_never if any(name in os.environ for name in CHOSEN_BY) else seconds_queued)
"""How the threads of this process wait."""
