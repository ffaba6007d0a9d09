"""How the system reads memory-mapped arrays: far ahead, row by row, or rows that it is told of."""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

LEAST_BYTES = 1 << 26
"""Smaller arrays are soon in memory as a whole, however they are read."""
PROBED = 64
"""Rows that are looked at, to see whether an array is in memory already."""
IN_MEMORY = 0.9
"""The share of them from which on it counts as being there."""
_PAGE = mmap.PAGESIZE


def advise(array: Tensor, order: Literal["rows", "all"]) -> bool:
    """Say whether some rows of an array will be read, here and there, or all in their order.

    Otherwise the system reads far around every row of a memory-mapped array that is not in memory:
    rows of 4 kB of a batch would cost thirty times their size. It is no more than advice, and means
    nothing for memory that no file backs. Small arrays are left alone: then it returns False.
    """
    if not hasattr(mmap, "MADV_RANDOM") or array.layout is not torch.strided or not array.is_cpu:
        return False
    if array.nbytes < LEAST_BYTES or not array.is_contiguous():
        return False
    first = array.data_ptr() // _PAGE * _PAGE
    size = array.data_ptr() + array.nbytes - first
    _system().madvise(first, size, mmap.MADV_RANDOM if order == "rows" else mmap.MADV_NORMAL)
    return True


def ask_for(array: Tensor, rows: Tensor) -> None:
    """Begin to read rows of a memory-mapped array that are not in memory.

    Reading a row by touching it waits for the disk before the next row is touched; a disk can do
    many at once. It is no more than advice, and does nothing for memory that no file backs.

    Args:
        array: contiguous, on the CPU.
        rows: their numbers, `[n]`.
    """
    can_ask = hasattr(mmap, "MADV_WILLNEED") and Path("/proc/self/maps").exists()
    if not can_ask or not len(rows) or not _is_of_file(array.data_ptr()):
        return
    size, first = array.stride(0) * array.element_size(), array.data_ptr()
    wanted = rows.numpy()
    probed = wanted[:: max(1, len(wanted) // PROBED)]
    page, there = np.empty(1, dtype=np.uint8), 0
    for row in probed.tolist():
        begin = (first + row * size) // _PAGE * _PAGE
        there += _system().mincore(begin, _PAGE, page.ctypes.data) == 0 and bool(page[0] & 1)
    if there < IN_MEMORY * len(probed):
        _ask_for_rows(wanted, first, size, _system().madvise, mmap.MADV_WILLNEED)


@njit(nogil=True)  # type: ignore[untyped-decorator]
def _ask_for_rows(rows: NDArray[Any], first: int, size: int, madvise: Any, advice: int) -> None:
    for i in range(rows.size):
        begin = first + rows[i] * size
        start = begin // _PAGE * _PAGE
        madvise(start, begin + size - start, advice)


@cache
def _system() -> Any:
    """The C library, with the types of `madvise` and `mincore`."""
    library = ctypes.CDLL(None)
    library.madvise.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
    library.mincore.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t)
    return library


@cache
def _is_of_file(address: int) -> bool:
    """Whether a file backs the memory at an address; if it changes later, advice does no harm."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        span, *_, inode = line.split(maxsplit=5)[:5]
        begin, end = (int(word, 16) for word in span.split("-"))
        if begin <= address < end:
            return inode != "0"
    return False
