"""The fused loops over rows, compiled by Numba at first use and cached on disk.

One row is summed in registers, in runs of at most ``RUN`` edges so that the rounding of a hub's
sum does not grow with its degree. A row is summed by one thread in the order of its edges: the
bits do not depend on how many threads there are. Masks are drawn again wherever they are needed.
"""

# ruff: noqa: PLR0917 - a compiled loop takes its arrays one by one

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import numba
import numpy as np
import platformdirs
from numba import njit, prange

from graphdrop.graph.masks import (
    LANE_MULTIPLIERS,
    MIX_MULTIPLIER,
    RANK_MULTIPLIER,
    SOURCE_ONLY,
    generator,
    rule,
)
from graphdrop.io.private_folder import private_folder
from graphdrop.kernels import multipliers, tiles
from graphdrop.kernels.multipliers import Constant, accumulate, accumulate_slope, is_per_edge
from graphdrop.kernels.tiles import add, dot, prefetch, store, zeros

RUN = 512
AHEAD = 16  # edges between asking for a row and using it

_U32, _U28 = np.uint64(32), np.uint64(28)
_ONE = np.float32(1.0)
_MIX = np.uint64(MIX_MULTIPLIER)
_RANK = np.uint64(RANK_MULTIPLIER)
_SOURCE_ONLY = np.uint64(SOURCE_ONLY)
_FIRST, _SECOND = (np.uint32(factor) for factor in LANE_MULTIPLIERS)

TRANSPOSED, SYMMETRIC, SOURCE, KEEP_LOOPS, FAR = 1, 2, 4, 8, 16
"""Flags: rows are sources; one draw for both directions; draws of the source; self-loops unmasked;
rows are not in the cache, so that prefetching helps."""


def cache_directory() -> Path:
    """The folder of compiled kernels, one per version of their source.

    Only this user has access to it, because its contents are executed.
    """
    modules = (generator, rule, multipliers, tiles)
    files = [*(str(module.__file__) for module in modules), __file__]
    sources = b"".join(Path(file).read_bytes() for file in files)
    root = os.environ.get("NUMBA_CACHE_DIR") or platformdirs.user_cache_dir("graphdrop")
    folder = private_folder(Path(root) / "kernels", "graphdrop-kernels")
    return folder / hashlib.sha256(sources).hexdigest()[:16]


def compiled(function: Callable[..., Any], parallel: bool = True) -> Any:
    """Compile for many threads, without the interpreter lock, cached under ``cache_directory``."""
    previous = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_directory())
    try:
        kernel = njit(parallel=parallel, nogil=True, cache=True, error_model="numpy")(function)
    finally:
        numba.config.CACHE_DIR = previous
    # Numba counts the files it writes, so two processes that compile at once take one name for
    # two kernels, and the index then finds the wrong one: no name is ever taken twice
    kernel._cache._cache_file._data_name = lambda _: f"{function.__name__}.{uuid4().hex}.nbc"
    return kernel


@njit(inline="always")  # type: ignore[untyped-decorator]
def edge_bits(row: Any, column: Any, rank: Any, key0: Any, key1: Any, flags: Any) -> Any:
    """``masks.edge_hash`` of the edge between two ids, as the flags say."""
    destination, source = np.uint64(row), np.uint64(column)
    if flags & TRANSPOSED:
        destination, source = source, destination
    if flags & SYMMETRIC:
        destination, source = max(destination, source), min(destination, source)
    number = np.uint64(rank)
    if flags & SOURCE:
        destination, number = _SOURCE_ONLY, np.uint64(0)
    word = ((destination << _U32) | source) ^ np.uint64(key0)
    word = (word ^ (word >> _U32)) * _MIX + np.uint64(key1) + number * _RANK
    word = (word ^ (word >> _U32)) * _MIX
    return word ^ (word >> _U28)


@njit(inline="always")  # type: ignore[untyped-decorator]
def draw_value(bits: Any, number: Any) -> Any:
    """``masks.draw_bits`` of one edge: its draw of this number, for loops that sum no features."""
    lane = np.uint32(number // 32 * 16 + number % 16)
    word = np.uint32(np.uint32(bits) + np.uint32(lane * np.uint32(bits >> _U32)))
    word = np.uint32((word ^ (word >> np.uint32(16))) * _FIRST)
    word = np.uint32((word ^ (word >> np.uint32(15))) * _SECOND)
    word = np.uint32(word ^ (word >> np.uint32(16)))
    return np.int32((word >> np.uint32(number // 16 % 2 * 16)) & np.uint32(0xFFFF))


@njit(inline="always")  # type: ignore[untyped-decorator]
def _visit(
    vectors: Any,
    edge: Any,
    row_id: Any,
    indices: Any,
    column_ids: Any,
    ranks: Any,
    key0: Any,
    key1: Any,
    flags: Any,
    source: Any,
    stride: Any,
    first: Any,
) -> Any:
    """An edge's bits, the offset of its row of ``x``, and whether it is an unmasked self-loop."""
    if flags & FAR:
        ahead = np.intp(indices[min(edge + AHEAD, np.intp(indices.size - 1))])
        prefetch(source, ahead * stride + first, vectors)
    column_id = np.int64(column_ids[edge])
    rank = np.int64(ranks[edge]) if ranks.size > 0 else np.int64(0)
    bits = edge_bits(row_id, column_id, rank, key0, key1, flags)
    offset = np.intp(indices[edge]) * stride + first
    return bits, offset, (flags & KEEP_LOOPS) != 0 and row_id == column_id


@njit(inline="always")  # type: ignore[untyped-decorator]
def _row_sum(
    vectors: Any,
    channel: Any,
    rule: Any,
    sample: Any,
    row_id: Any,
    begin: Any,
    end: Any,
    indices: Any,
    values: Any,
    column_ids: Any,
    ranks: Any,
    key0: Any,
    key1: Any,
    flags: Any,
    source: Any,
    stride: Any,
    first: Any,
    start: Any,
    tail: Any,
) -> Any:
    """The sum of ``value * mask * x[column]`` over a row's edges; ``x`` lies at ``first``.

    A rule that has several entries is read at the sample's number, or at the edge's if that is
    negative.
    """
    total = zeros(vectors)
    while begin < end:
        stop = min(begin + RUN, end)
        part = zeros(vectors)
        for edge in range(begin, stop):
            bits, offset, whole = _visit(
                vectors, edge, row_id, indices, column_ids, ranks, key0, key1, flags,
                source, stride, first,
            )  # fmt: skip
            entry = edge if sample < 0 else sample
            value = values[edge]
            if whole:
                part = accumulate(
                    part, source, offset, tail, value, bits, entry, start, channel, Constant(_ONE)
                )
            else:
                part = accumulate(
                    part, source, offset, tail, value, bits, entry, start, channel, rule
                )
        total = add(total, part)
        begin = stop
    return total


@compiled
def sum_rows(
    vectors: Any,
    channel: Any,
    rule: Any,
    chunks: Any,
    indptr: Any,
    indices: Any,
    values: Any,
    row_ids: Any,
    column_ids: Any,
    ranks: Any,
    key0: Any,
    key1: Any,
    flags: Any,
    x: Any,
    out: Any,
    start: Any,
    tail: Any,
) -> None:
    """``out[row] = sum of value * mask * x[column]`` over the features of one tile."""
    source, target = x.reshape(-1), out.reshape(-1)
    x_stride, out_stride = np.intp(x.shape[1]), np.intp(out.shape[1])
    named = row_ids.size > 0
    for chunk in prange(chunks.size - 1):
        for row in range(chunks[chunk], chunks[chunk + 1]):
            row_id = np.int64(row_ids[row]) if named else np.int64(row)
            begin, end = np.intp(indptr[row]), np.intp(indptr[row + 1])
            total = _row_sum(
                vectors, channel, rule, -1, row_id, begin, end, indices, values, column_ids, ranks,
                key0, key1, flags, source, x_stride, start, start, tail,
            )  # fmt: skip
            store(target, row * out_stride + start, total, tail)


@compiled
def sum_rows_of_samples(
    vectors: Any,
    channel: Any,
    rule: Any,
    chunks: Any,
    indptr: Any,
    indices: Any,
    values: Any,
    row_ids: Any,
    column_ids: Any,
    ranks: Any,
    keys: Any,
    flags: Any,
    x: Any,
    out: Any,
    start: Any,
    tail: Any,
    step: Any,
) -> None:
    """``out[row, sample] = sum of value * mask * x[column, sample]``, a sample ``step`` further."""
    source, target = x.reshape(-1), out.reshape(-1)
    stride, out_stride = np.intp(x.shape[1]), np.intp(out.shape[1])
    samples = keys.shape[0]
    width = out_stride // samples
    named = row_ids.size > 0
    for chunk in prange(chunks.size - 1):
        for row in range(chunks[chunk], chunks[chunk + 1]):
            row_id = np.int64(row_ids[row]) if named else np.int64(row)
            begin, end = np.intp(indptr[row]), np.intp(indptr[row + 1])
            for sample in range(samples):
                first = np.intp(sample * step) + start
                total = _row_sum(
                    vectors, channel, rule, sample, row_id, begin, end, indices, values,
                    column_ids, ranks, keys[sample, 0], keys[sample, 1], flags,
                    source, stride, first, start, tail,
                )  # fmt: skip
                store(target, row * out_stride + sample * width + start, total, tail)


@compiled
def sum_rows_and_slopes(
    vectors: Any,
    channel: Any,
    rule: Any,
    chunks: Any,
    indptr: Any,
    indices: Any,
    values: Any,
    row_ids: Any,
    column_ids: Any,
    ranks: Any,
    key0: Any,
    key1: Any,
    flags: Any,
    x: Any,
    out: Any,
    start: Any,
    tail: Any,
    own: Any,
    slopes: Any,
) -> None:
    """As ``sum_rows``; ``slopes[row]`` gains ``own[row] . sum of value * z (1 - z) * x[column]``.

    The sums are not kept if ``out`` is empty.

    With one keep logit for every edge ``slopes[edge]`` gains its own term of that. On the
    transpose, with the output's gradient as ``x`` and the input as ``own``, the slopes over the
    temperature are the gradients of the logits, or sum up to that of the one logit.
    """
    source, mine, target = x.reshape(-1), own.reshape(-1), out.reshape(-1)
    x_stride, out_stride = np.intp(x.shape[1]), np.intp(own.shape[1])
    wanted = out.size > 0
    named = row_ids.size > 0
    for chunk in prange(chunks.size - 1):
        for row in range(chunks[chunk], chunks[chunk + 1]):
            row_id = np.int64(row_ids[row]) if named else np.int64(row)
            here = row * out_stride + start
            total = zeros(vectors)
            begin, end = np.intp(indptr[row]), np.intp(indptr[row + 1])
            while begin < end:
                stop = min(begin + RUN, end)
                part = zeros(vectors)
                slope = zeros(vectors)
                for edge in range(begin, stop):
                    bits, offset, whole = _visit(
                        vectors, edge, row_id, indices, column_ids, ranks, key0, key1, flags,
                        source, x_stride, start,
                    )  # fmt: skip
                    value = values[edge]
                    if whole:
                        part = accumulate(
                            part, source, offset, tail, value, bits, edge, start, channel,
                            Constant(_ONE),
                        )  # fmt: skip
                    else:
                        if is_per_edge(rule):
                            slope = zeros(vectors)
                        part, slope = accumulate_slope(
                            part, slope, source, offset, tail, value, bits, edge, start, channel,
                            rule,
                        )  # fmt: skip
                        if is_per_edge(rule):
                            slopes[edge] += np.float64(dot(slope, mine, here, tail))
                total = add(total, part)
                if not is_per_edge(rule):
                    slopes[row] += np.float64(dot(slope, mine, here, tail))
                begin = stop
            if wanted:
                store(target, here, total, tail)
