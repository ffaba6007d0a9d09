"""Rows of a memory-mapped array that is larger than memory: the disk is asked for all at once."""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

PROBED = 64
"""Rows that are looked at, to see whether an array is in memory already."""
IN_MEMORY = 0.9
"""The share of them from which on it counts as being there."""
_PAGE, _WILLNEED = mmap.PAGESIZE, getattr(mmap, "MADV_WILLNEED", 0)


def ask_for(array: Tensor, rows: Tensor) -> None:
    """Begin to read rows of a memory-mapped array that are not in memory.

    Reading a row by touching it waits for the disk before the next row is touched; a disk can do
    many at once. It is no more than advice, and does nothing for memory that no file backs.

    Args:
        array: contiguous, on the CPU.
        rows: their numbers, `[n]`.
    """
    calls = _calls()
    if calls is None or not len(rows) or not _of_file(array.data_ptr()):
        return
    madvise, mincore = calls
    size, first = array.stride(0) * array.element_size(), array.data_ptr()
    wanted = rows.numpy()
    probed = wanted[:: max(1, len(wanted) // PROBED)]
    page, there = np.empty(1, dtype=np.uint8), 0
    for row in probed.tolist():
        begin = (first + row * size) // _PAGE * _PAGE
        there += mincore(begin, _PAGE, page.ctypes.data) == 0 and bool(page[0] & 1)
    if there < IN_MEMORY * len(probed):
        _advise_rows(wanted, first, size, madvise)


@njit(nogil=True)  # type: ignore[untyped-decorator]
def _advise_rows(rows: NDArray[Any], first: int, size: int, madvise: Any) -> None:
    for i in range(rows.size):
        begin = first + rows[i] * size
        start = begin // _PAGE * _PAGE
        madvise(start, begin + size - start, _WILLNEED)


@cache
def _calls() -> tuple[Any, Any] | None:
    """The system's `madvise` and `mincore`, where it has them."""
    if not _WILLNEED or not Path("/proc/self/maps").exists():
        return None
    library = ctypes.CDLL(None)
    library.madvise.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
    library.mincore.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t)
    return library.madvise, library.mincore


@cache
def _of_file(address: int) -> bool:
    """Whether a file backs the memory at an address; if it changes later, advice does no harm."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        span, *_, inode = line.split(maxsplit=5)[:5]
        begin, end = (int(word, 16) for word in span.split("-"))
        if begin <= address < end:
            return inode != "0"
    return False
