"""Room for large results: huge pages, kept when a result is dropped and used for the next one.

A step over a million nodes makes and drops results of half a gigabyte each. Asking the system for
fresh pages every time takes a quarter of that step. A mapping here is lent to a tensor, comes back
when the last view of it is gone, and is lent again; while it lies idle the system may take its
pages, should they be needed elsewhere.
"""

from __future__ import annotations

import mmap
import threading
import weakref
from collections import deque

import numpy as np
import torch
from torch import Tensor

LEAST_BYTES = 1 << 24
"""Smaller results are left to torch: malloc keeps their memory by itself."""
HUGE_PAGE = 1 << 21


class Pool:
    """Mappings lent to tensors; never more bytes than were lent at once at the peak."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[mmap.mmap] = []  # the longest idle first
        # a tensor may die anywhere, also where this thread holds the lock: appending needs none
        self._returned: deque[mmap.mmap] = deque()
        self._lent = self._peak = 0

    def empty(self, rows: int, features: int) -> Tensor:
        """A float32 matrix that holds whatever was there."""
        mapping = self._take(4 * rows * features)
        address = np.frombuffer(mapping, np.uint8).ctypes.data
        lease = np.frombuffer(mapping, np.float32, rows * features, -address % HUGE_PAGE)
        lease = lease.reshape(rows, features)
        weakref.finalize(lease, self._returned.append, mapping).atexit = False
        return torch.from_numpy(lease)

    def release(self) -> None:
        """Give idle memory back to the system."""
        with self._lock:
            self._collect()
            self._idle.clear()
            self._peak = self._lent

    def sizes(self) -> tuple[int, int]:
        """Bytes that are lent, and bytes that lie idle."""
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
    """Room for a result; in huge pages where it is large and the system has them.

    Rows are read in no order, so with small pages most reads of a large matrix also miss the
    table that finds the page.
    """
    if 4 * rows * features < LEAST_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(rows, features)
    return _pool.empty(rows, features)


def in_huge_pages(x: Tensor) -> Tensor:
    """A copy of a float32 matrix in huge pages, where the system has them.

    Worth it once for the features of a graph with a million nodes: the sum over their neighbours
    then takes two thirds of the time.
    """
    if x.dim() != 2 or x.dtype != torch.float32 or not x.is_cpu:
        raise ValueError(
            f"x is {x.dtype} of shape {tuple(x.shape)} on {x.device}; it takes a float32 matrix "
            "on the CPU."
        )
    return empty(*x.shape).copy_(x.detach())


def release_memory() -> None:
    """Give the memory of large results that are gone back to the system.

    It is otherwise kept for the results to come, at most as much as was in use at once.
    """
    _pool.release()
