"""The draws of ``graphdrop.graph.masks`` in Triton: the same bits, computed in registers.

Integers are 64-bit for an edge's hash and 32-bit for the lanes that it is expanded into, as in
``draws.generator``; the rule from a draw to a multiplier is that of ``draws.rule``.
"""

# ruff: noqa: PLR0917 - a kernel takes its arrays one by one, and constants in capitals
# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl

from graphdrop.graph import masks as draws

NONE, HARD, CONCRETE, MEAN, TABLE = (tl.constexpr(number) for number in range(5))
"""The rules; the first four are in the order of ``draws.Kind``."""
SHARED, FEATURES, BLOCKS = (tl.constexpr(number) for number in range(3))
"""The channels: one draw for all features of an edge, one for each, or one for each block."""

_MIX = tl.constexpr(draws.MIX_MULTIPLIER)
_RANK = tl.constexpr(draws.RANK_MULTIPLIER)
_FIRST, _SECOND = (tl.constexpr(one) for one in draws.LANE_MULTIPLIERS)
_SOURCE_ONLY = tl.constexpr(draws.SOURCE_ONLY)
_LARGEST = tl.constexpr(draws.LARGEST)
_SHIFT = tl.constexpr(draws.DRAW_BITS - draws.TABLE_BITS)
_ALL, _TOP = tl.constexpr(1 << draws.DRAW_BITS), tl.constexpr(1 << draws.TABLE_BITS)


@triton.jit
def edge_bits(
    destination,
    source,
    rank,
    first_key,
    second_key,
    SOURCE: tl.constexpr,
    SYMMETRIC: tl.constexpr,
    RANKED: tl.constexpr,
):
    """``draws.edge_hash`` of edges between ids, int64, as the flags say; uint64."""
    high = destination
    low = source
    if SYMMETRIC:
        high = tl.maximum(destination, source)
        low = tl.minimum(destination, source)
    if SOURCE:
        high = tl.full(source.shape, _SOURCE_ONLY, tl.int64)
    word = ((high << 32) | low).to(tl.uint64, bitcast=True) ^ first_key
    word = (word ^ (word >> 32)) * _MIX + second_key
    if RANKED and not SOURCE:
        word += rank.to(tl.uint64) * _RANK
    word = (word ^ (word >> 32)) * _MIX
    return word ^ (word >> 28)


@triton.jit
def draw_values(bits, number, ANTITHETIC: tl.constexpr):
    """``draws.draw_bits`` as a mask reads them: edges ``[E]`` and numbers ``[D]`` to int32."""
    start = bits.to(tl.uint32)[:, None]
    stride = (bits >> 32).to(tl.uint32)[:, None]
    counter = (number // 32 * 16 + number % 16).to(tl.uint32)[None, :]
    half = (number // 16 % 2 * 16).to(tl.uint32)[None, :]
    word = start + counter * stride
    word = (word ^ (word >> 16)) * _FIRST
    word = (word ^ (word >> 15)) * _SECOND
    word = word ^ (word >> 16)
    value = ((word >> half) & 0xFFFF).to(tl.int32)
    if ANTITHETIC:
        value = _LARGEST - value
    return value


@triton.jit
def block_numbers(feature, features, blocks):
    """``draws.block_of_feature``: sizes of blocks differ by at most one."""
    size = features // blocks
    larger = features - size * blocks
    edge = larger * (size + 1)
    return tl.where(
        feature < edge, feature // (size + 1), larger + (feature - edge) // tl.maximum(size, 1)
    )


@triton.jit
def relaxed(value, logit, widest, inverse_temperature):
    """A concrete mask ``z`` and its slope ``z (1 - z)``, from draws and keep logits.

    ``u / (1 - u)`` is a ratio of two whole numbers, hence good to the last bits of float32, and the
    slope is made of the smaller of ``z`` and ``1 - z``: no difference of near numbers is taken.
    """
    whole = tl.abs(logit) > widest  # in the logit's own type
    entry = tl.where(whole, value, value >> _SHIFT)
    count = tl.where(whole, _ALL, _TOP)
    below = 2 * entry + 1
    noise = tl.log(below.to(tl.float32) / (2 * count - below).to(tl.float32))
    score = (logit.to(tl.float32) + noise) * inverse_temperature
    ratio = tl.exp(-tl.abs(score))
    larger = 1.0 / (1.0 + ratio)
    smaller = ratio * larger
    return tl.where(score >= 0.0, larger, smaller), smaller * larger
