"""The random lanes of an edge and the draws in them, in vector code: the generator's bits."""

from __future__ import annotations

from llvmlite import ir

from graphdrop.graph.masks import DRAW_BITS, LANE_MULTIPLIERS
from graphdrop.kernels.tiles import I32, I64, constants, splat, take


def lane_words(
    builder: ir.IRBuilder, bits: ir.Value, numbers: ir.Value, skipped: ir.Value | None = None
) -> ir.Value:
    """The 32-bit lanes of an edge's stream (``draws.lane``), one per number."""
    width = numbers.type.count
    low = builder.trunc(bits, I32)
    high = builder.trunc(builder.lshr(bits, I64(32)), I32)
    if skipped is not None:
        low = builder.add(low, builder.mul(builder.trunc(skipped, I32), high))

    def fold(word: ir.Value, shift: int) -> ir.Value:
        return builder.xor(word, builder.lshr(word, constants(I32, [shift] * width)))

    first, second = (constants(I32, [factor] * width) for factor in LANE_MULTIPLIERS)
    strides = builder.mul(splat(builder, high, width), numbers)
    word = builder.add(splat(builder, low, width), strides)
    word = builder.mul(fold(word, 16), first)
    word = builder.mul(fold(word, 15), second)
    return fold(word, 16)


def counters(count: int) -> ir.Constant:
    """The numbers of the first lanes."""
    return constants(I32, range(count))


def halves(builder: ir.IRBuilder, words: ir.Value, draws: int) -> ir.Value:
    """The first ``draws`` 16-bit draws of a vector of lanes, in the order of ``draw_bits``."""
    count = words.type.count
    low = builder.and_(words, constants(I32, [0xFFFF] * count))
    high = builder.lshr(words, constants(I32, [DRAW_BITS] * count))
    order = [draw // 32 * 16 + draw % 16 + draw // 16 % 2 * count for draw in range(draws)]
    return take(builder, low, high, order)
