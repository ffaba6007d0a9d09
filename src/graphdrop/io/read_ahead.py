"""How the system reads a memory-mapped array ahead."""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

LEAST_BYTES = 1 << 26
"""Smaller arrays are soon in memory as a whole, however they are read."""


def advise(array: Tensor, order: Literal["rows", "all"]) -> bool:
    """Say whether some rows of an array will be read, here and there, or all in their order.

    Otherwise the system reads far around every row of a memory-mapped array that is not in memory:
    rows of 4 kB of a batch would cost thirty times their size. It is no more than advice, and means
    nothing for memory that no file backs. Small arrays are left alone: then it returns False.
    """
    call = _madvise()
    if call is None or array.layout is not torch.strided or not array.is_cpu:
        return False
    if array.nbytes < LEAST_BYTES or not array.is_contiguous():
        return False
    first = array.data_ptr() // mmap.PAGESIZE * mmap.PAGESIZE
    size = array.data_ptr() + array.nbytes - first
    call(first, size, mmap.MADV_RANDOM if order == "rows" else mmap.MADV_NORMAL)
    return True


@cache
def _madvise() -> Any:
    if not hasattr(mmap, "MADV_RANDOM"):
        return None
    function = ctypes.CDLL(None).madvise
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function
