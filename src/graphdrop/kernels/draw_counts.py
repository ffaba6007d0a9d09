"""The fused loop that counts draws, for the gradients of ARM and similar estimators.

Draws are computed in registers and not stored. Sums are of integers, hence exact and independent of
the number of threads.
"""

# ruff: noqa: ARG001, PLR0917 - an intrinsic names arguments it does not read, a loop all its arrays

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from graphdrop.graph.masks import DRAW_BITS
from graphdrop.kernels.lanes import counters, lane_words
from graphdrop.kernels.loops import compiled, edge_bits
from graphdrop.kernels.tiles import I16, I32, I64, LANES, call, constants, splat

CHUNKS = 64
PIECE = 1 << 15  # draws of an edge that are counted in 16 bits, and added up in 32
GROUP = 2 * LANES  # draws in a vector of lanes


class _Counter:
    """Emits the running sums over an edge's draws: a lane of 32 bits is two draws of 16."""

    def __init__(self, builder: ir.IRBuilder, width: int, bits: Any, threshold: Any) -> None:
        self.builder, self.width, self.bits, self.threshold = builder, width, bits, threshold
        low = builder.trunc(threshold, I16)
        mirrored = builder.sub(I16(0xFFFF), low)
        self.least, self.most = (splat(builder, value, 2 * width) for value in (low, mirrored))
        self.total = cgutils.alloca_once_value(builder, constants(I32, [0] * width))
        zero = constants(I16, [0] * 2 * width)
        self.kept, self.opposite = (cgutils.alloca_once_value(builder, zero) for _ in range(2))

    def add(self, lane: Any, left: Any | None = None) -> None:
        """Count the group of draws that begins at a lane: all of it, or the ``left`` first."""
        builder, width = self.builder, self.width
        words = lane_words(builder, self.bits, counters(width), lane)
        draws = builder.bitcast(words, self.least.type)
        reached = builder.icmp_unsigned(">=", draws, self.least)
        mirrored = builder.icmp_unsigned("<=", draws, self.most)  # 65535 - k >= threshold
        if left is not None:
            # the low half of lane i is draw i, its high half draw i + 16
            number = constants(I16, [i // 2 + i % 2 * LANES for i in range(2 * width)])
            read = builder.icmp_unsigned("<", number, splat(builder, left, 2 * width))
            reached, mirrored = builder.and_(reached, read), builder.and_(mirrored, read)
            draws = builder.select(read, draws, constants(I16, [0] * 2 * width))
            words = builder.bitcast(draws, words.type)
        low = builder.and_(words, constants(I32, [0xFFFF] * width))
        high = builder.lshr(words, constants(I32, [DRAW_BITS] * width))
        self._increase(self.total, builder.add(low, high))
        self._increase(self.kept, builder.zext(reached, draws.type))
        self._increase(self.opposite, builder.zext(mirrored, draws.type))

    def _increase(self, place: Any, term: Any) -> None:
        self.builder.store(self.builder.add(self.builder.load(place), term), place)

    def results(self) -> list[Any]:
        """The sums over all lanes, as 64-bit integers."""
        # 65536 is the one threshold that 16 bits do not hold: it keeps nothing
        certain = self.builder.icmp_unsigned(">", self.threshold, I32(0xFFFF))
        kept, opposite = (
            self.builder.select(certain, I64(0), self._reduced(place))
            for place in (self.kept, self.opposite)
        )
        return [self._reduced(self.total), kept, opposite]

    def _reduced(self, place: Any) -> Any:
        value = self.builder.load(place)
        element = value.type.element
        name = f"llvm.vector.reduce.add.v{value.type.count}i{element.width}"
        return self.builder.zext(call(self.builder, name, element, value), I64)


@intrinsic  # type: ignore[untyped-decorator]
def count_draws(_typing: Any, lanes: Any, bits: Any, first: Any, count: Any, threshold: Any) -> Any:
    """Sum ``k``, ``k >= threshold`` and ``65535 - k >= threshold`` over draws of one edge.

    They are ``count`` draws, at most ``PIECE``, from number ``first``, a multiple of 32. ``lanes``
    is a tuple whose length is the width of the vectors: 16, or as many as there are draws.
    """
    triple = types.UniTuple(types.int64, 3)

    def emit(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        _, bits, first, count, threshold = arguments
        counter = _Counter(builder, lanes.count, bits, threshold)
        lane = builder.sdiv(first, I64(2))
        if lanes.count < LANES:
            counter.add(lane, builder.trunc(count, I16))
        else:
            whole = builder.sdiv(count, I64(GROUP))
            with cgutils.for_range(builder, whole) as loop:
                counter.add(builder.add(lane, builder.mul(loop.index, I64(LANES))))
            left = builder.srem(count, I64(GROUP))
            with builder.if_then(builder.icmp_signed(">", left, I64(0))):
                end = builder.add(lane, builder.mul(whole, I64(LANES)))
                counter.add(end, builder.trunc(left, I16))
        return context.make_tuple(builder, triple, counter.results())

    return triple(lanes, types.uint64, types.intp, types.intp, types.int32), emit


@compiled
def count_all_draws(
    lanes: Any,
    destinations: Any,
    sources: Any,
    ranks: Any,
    thresholds: Any,
    draws: Any,
    key0: Any,
    key1: Any,
    flags: Any,
    sums: Any,
    each: Any,
) -> None:
    """``sums[chunk]`` and, unless it is empty, ``each[edge]``: the three sums of the edges."""
    ranked = ranks.size > 0
    apart = each.size > 0
    edges = destinations.size
    for chunk in prange(CHUNKS):
        total, kept, opposite = np.int64(0), np.int64(0), np.int64(0)
        for edge in range(chunk * edges // CHUNKS, (chunk + 1) * edges // CHUNKS):
            destination, source = np.int64(destinations[edge]), np.int64(sources[edge])
            rank = np.int64(ranks[edge]) if ranked else np.int64(0)
            bits = edge_bits(destination, source, rank, key0, key1, flags)
            threshold = thresholds[edge] if apart else thresholds[0]
            first = 0
            while first < draws:
                count = min(draws - first, PIECE)
                one, two, three = count_draws(lanes, bits, first, count, threshold)
                total, kept, opposite = total + one, kept + two, opposite + three
                if apart:
                    each[edge, 0] += one
                    each[edge, 1] += two
                    each[edge, 2] += three
                first += PIECE
        sums[chunk, 0], sums[chunk, 1], sums[chunk, 2] = total, kept, opposite
