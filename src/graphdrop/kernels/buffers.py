"""A memory pool for large results, in huge pages.

A step over a million nodes allocates and frees results of half a gigabyte each. New small pages of
that size take as long as half of the sum, and new huge pages take longer still while the system's
memory is fragmented. So the pool reuses memory mappings: a mapping belongs to a tensor until its
last view is deleted. The system may reclaim the pages of unused mappings.
"""

from __future__ import annotations

import mmap
import threading
import weakref
from collections import deque

import numpy as np
import torch
from torch import Tensor

LEAST_BYTES = 1 << 25
"""Smaller results are allocated by torch: the C library keeps their memory, not that of larger."""
HUGE_PAGE = 1 << 21


class Pool:
    """A pool of mappings; it never holds more bytes than were in use at the peak."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[mmap.mmap] = []  # the longest idle first
        # a tensor may die anywhere, also where this thread holds the lock: appending needs none
        self._returned: deque[mmap.mmap] = deque()
        self._lent = self._peak = 0

    def empty(self, rows: int, features: int) -> Tensor:
        """An uninitialized float32 matrix."""
        mapping = self._take(4 * rows * features)
        address = np.frombuffer(mapping, np.uint8).ctypes.data
        lease = np.frombuffer(mapping, np.float32, rows * features, -address % HUGE_PAGE)
        lease = lease.reshape(rows, features)
        weakref.finalize(lease, self._returned.append, mapping).atexit = False
        return torch.from_numpy(lease)

    def release(self) -> None:
        """Return unused memory to the system."""
        with self._lock:
            self._collect()
            self._idle.clear()
            self._peak = self._lent

    def sizes(self) -> tuple[int, int]:
        """Bytes in use, and unused bytes."""
        with self._lock:
            self._collect()
            return self._lent, sum(map(len, self._idle))

    def _take(self, size: int) -> mmap.mmap:
        # a mapping begins anywhere, its first huge page does not
        size = -(-size // HUGE_PAGE) * HUGE_PAGE + HUGE_PAGE
        with self._lock:
            self._collect()
            fitting = [mapping for mapping in self._idle if size <= len(mapping) <= 2 * size]
            if fitting:
                found = min(fitting, key=len)
                self._idle = [mapping for mapping in self._idle if mapping is not found]
            self._lent += len(found) if fitting else size
            self._peak = max(self._peak, self._lent)
            while self._idle and self._lent + sum(map(len, self._idle)) > self._peak:
                del self._idle[0]
            if fitting:
                return found
        try:
            mapping = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError:
            with self._lock:
                self._lent -= size
            raise
        mapping.madvise(mmap.MADV_HUGEPAGE)
        return mapping

    def _collect(self) -> None:
        while self._returned:
            mapping = self._returned.popleft()
            self._lent -= len(mapping)
            mapping.madvise(mmap.MADV_FREE)
            self._idle.append(mapping)


_pool = Pool()


def empty(rows: int, features: int) -> Tensor:
    """An uninitialized matrix, in huge pages if it is large and the system has them.

    Rows are read in random order, so that with small pages most reads of a large matrix miss the
    translation lookaside buffer.
    """
    if 4 * rows * features < LEAST_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(rows, features)
    return _pool.empty(rows, features)


def in_huge_pages(x: Tensor) -> Tensor:
    """A copy of a float32 matrix in huge pages, where the system has them.

    For the features of a graph with a million nodes the sum over neighbours then takes two thirds
    of the time.
    """
    if x.dim() != 2 or x.dtype != torch.float32 or not x.is_cpu:
        raise ValueError(
            f"x is {x.dtype} of shape {tuple(x.shape)} on {x.device}; it takes a float32 matrix "
            "on the CPU."
        )
    return empty(*x.shape).copy_(x.detach())


def release_memory() -> None:
    """Return the memory of deleted large results to the system.

    Otherwise it is kept for later results.
    """
    _pool.release()
