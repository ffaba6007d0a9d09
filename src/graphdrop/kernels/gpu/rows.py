"""The masked sum over rows in Triton, its gradients, and the second stage of long rows.

One program sums one segment of a row, one tile of features and one sample. It walks the edges
``BLOCK_E`` at a time, computes their draws in registers and gathers their rows of ``x``. Sums are
float32 in a fixed order, without atomic operations: a result has the same bits in every run.

Draws have the bits of ``graphdrop.graph.masks``, computed in registers: integers are 64-bit for an
edge's hash and 32-bit for the lanes that it is expanded into.

The gradient to ``x`` is the same sum over the transpose. On that walk the gradient to the keep
logit comes along: the slopes of the masks times the row of ``x`` that the program belongs to.
"""

# ruff: noqa: PLR0912, PLR0915, PLR0917, PLR1714 - a kernel is one function with its cases in it
# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl

from graphdrop.graph.masks import (
    DRAW_BITS,
    LANE_MULTIPLIERS,
    LARGEST,
    MIX_MULTIPLIER,
    RANK_MULTIPLIER,
    SOURCE_ONLY,
    TABLE_BITS,
)

NONE, HARD, CONCRETE, MEAN, TABLE = (tl.constexpr(number) for number in range(5))
"""The rules; the first four are in the order of ``masks.Kind``."""
SHARED, FEATURES, BLOCKS = (tl.constexpr(number) for number in range(3))
"""The channels: one draw for all features of an edge, one for each, or one for each block."""

_MIX = tl.constexpr(MIX_MULTIPLIER)
_RANK = tl.constexpr(RANK_MULTIPLIER)
_FIRST, _SECOND = (tl.constexpr(factor) for factor in LANE_MULTIPLIERS)
_SOURCE_ONLY = tl.constexpr(SOURCE_ONLY)
_LARGEST = tl.constexpr(LARGEST)
_SHIFT = tl.constexpr(DRAW_BITS - TABLE_BITS)
_ALL, _TOP = tl.constexpr(1 << DRAW_BITS), tl.constexpr(1 << TABLE_BITS)


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
    """``masks.edge_hash`` of edges between ids, int64, as the flags say; uint64."""
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
    """``masks.draw_bits`` as a mask reads them: edges ``[E]`` and numbers ``[D]`` to int32."""
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
    """``masks.block_of_feature``: sizes of blocks differ by at most one."""
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


NO_SLOPES, SLOPE_PER_MASK, SLOPE_PER_EDGE = (tl.constexpr(number) for number in range(3))

_CHANGING = ["num_rows", "slopes_tile", "slopes_sample", "blocks", "shift"]


@triton.jit(do_not_specialize=_CHANGING)
def sum_rows(
    x,
    own,
    out,
    partial,
    slopes,
    segment_row,
    segment_begin,
    segment_end,
    segment_slot,
    indices,
    values,
    row_ids,
    column_ids,
    ranks,
    edge_numbers,
    keys,
    rates,
    table,
    slope_table,
    num_rows,
    features,
    blocks,
    shift,
    x_row,
    x_sample,
    own_row,
    own_sample,
    out_row,
    out_sample,
    partial_sample,
    slopes_tile,
    slopes_sample,
    rates_sample,
    table_sample,
    widest,
    inverse_temperature,
    KIND: tl.constexpr,
    CHANNEL: tl.constexpr,
    PER_EDGE: tl.constexpr,
    SOURCE: tl.constexpr,
    SYMMETRIC: tl.constexpr,
    KEEP_LOOPS: tl.constexpr,
    ANTITHETIC: tl.constexpr,
    TRANSPOSED: tl.constexpr,
    NAMED_ROWS: tl.constexpr,
    NAMED_COLUMNS: tl.constexpr,
    RANKED: tl.constexpr,
    SLOPES: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_F: tl.constexpr,
):
    """``out[row, sample] = sum of value * mask * x[column, sample]`` over a segment of a row."""
    segment = tl.program_id(0)
    tile = tl.program_id(1)
    sample = tl.program_id(2).to(tl.int64)
    row = tl.load(segment_row + segment)
    if row < num_rows:
        begin = tl.load(segment_begin + segment)
        end = tl.load(segment_end + segment)
        feature = tile * BLOCK_F + tl.arange(0, BLOCK_F)
        inside = feature < features
        row_id = row.to(tl.int64)
        if NAMED_ROWS:
            row_id = tl.load(row_ids + row).to(tl.int64)
        x += sample * x_sample
        rates += sample * rates_sample
        table += sample * table_sample
        slopes += tile.to(tl.int64) * slopes_tile + sample * slopes_sample
        first_key = tl.load(keys + 2 * sample).to(tl.uint64, bitcast=True)
        second_key = tl.load(keys + 2 * sample + 1).to(tl.uint64, bitcast=True)
        if CHANNEL == SHARED:
            number = tl.zeros([1], tl.int32)
        elif CHANNEL == FEATURES:
            number = feature
        else:
            number = block_numbers(feature, features, blocks)

        total = tl.zeros([BLOCK_E, BLOCK_F], tl.float32)
        steep = tl.zeros([BLOCK_E, BLOCK_F], tl.float32)
        if SLOPES != NO_SLOPES:
            owned = own + row.to(tl.int64) * own_row + sample * own_sample
            mine = tl.load(owned + feature, mask=inside, other=0.0).to(tl.float32)
        for first in range(begin, end, BLOCK_E):
            edge = first + tl.arange(0, BLOCK_E)
            valid = edge < end
            column = tl.load(indices + edge, mask=valid, other=0).to(tl.int64)
            weight = tl.load(values + edge, mask=valid, other=0.0)[:, None]
            column_id = column
            if NAMED_COLUMNS:
                column_id = tl.load(column_ids + edge, mask=valid, other=0).to(tl.int64)
            rank = edge
            if RANKED:
                rank = tl.load(ranks + edge, mask=valid, other=0)
            place = edge
            if PER_EDGE and TRANSPOSED:
                place = tl.load(edge_numbers + edge, mask=valid, other=0)
            if KIND != NONE:
                if PER_EDGE:
                    rate = tl.load(rates + place, mask=valid, other=0)[:, None]
                elif KIND != TABLE:
                    rate = tl.load(rates)
            if (KIND != NONE) and (KIND != MEAN):
                here = row_id + tl.zeros_like(column_id)
                if TRANSPOSED:
                    bits = edge_bits(
                        column_id, here, rank, first_key, second_key, SOURCE, SYMMETRIC, RANKED
                    )
                else:
                    bits = edge_bits(
                        here, column_id, rank, first_key, second_key, SOURCE, SYMMETRIC, RANKED
                    )
                value = draw_values(bits, number, ANTITHETIC)
            if KIND == NONE:
                kept = tl.full([BLOCK_E, 1], 1.0, tl.float32)
            elif KIND == HARD:
                kept = (value >= rate).to(tl.float32)
            elif KIND == CONCRETE:
                kept, slope = relaxed(value, rate, widest, inverse_temperature)
            elif KIND == MEAN:
                kept = tl.zeros([BLOCK_E, 1], tl.float32) + rate
            else:
                kept = tl.load(table + (value >> shift))
                if SLOPES != NO_SLOPES:
                    slope = tl.load(slope_table + (value >> shift))
            if KEEP_LOOPS and (KIND != NONE):
                loop = (column_id == row_id)[:, None]
                kept = tl.where(loop, 1.0, kept)
                if SLOPES != NO_SLOPES:
                    slope = tl.where(loop, 0.0, slope)
            read = valid[:, None] & inside[None, :]
            if (KIND == HARD) and (CHANNEL == SHARED):  # an edge that is dropped is not read
                read = read & (kept != 0.0)
            at = x + column[:, None] * x_row + feature[None, :]
            given = tl.load(at, mask=read, other=0.0).to(tl.float32)
            total += (weight * kept) * given
            if SLOPES == SLOPE_PER_MASK:
                steep += (weight * slope) * given
            elif SLOPES == SLOPE_PER_EDGE:
                each = tl.sum((weight * slope) * given * mine[None, :], axis=1)
                tl.store(slopes + place, each, mask=valid)

        result = tl.sum(total, axis=0)
        slot = tl.load(segment_slot + segment)
        if slot < 0:
            whole = out + row.to(tl.int64) * out_row + sample * out_sample
            tl.store(whole + feature, result.to(out.dtype.element_ty), mask=inside)
        else:
            part = partial + sample * partial_sample + slot.to(tl.int64) * features
            tl.store(part + feature, result, mask=inside)
        if SLOPES == SLOPE_PER_MASK:
            moved = tl.sum(tl.sum(steep, axis=0) * mine, axis=0)
            tl.store(slopes + segment, moved)


@triton.jit(do_not_specialize=["num_rows"])
def add_parts(
    partial,
    out,
    long_row,
    long_first,
    long_last,
    num_rows,
    features,
    partial_sample,
    out_row,
    out_sample,
    BLOCK_P: tl.constexpr,
    BLOCK_F: tl.constexpr,
):
    """The sums of rows of more than one segment, from those of their segments, in their order."""
    number = tl.program_id(0)
    sample = tl.program_id(2).to(tl.int64)
    row = tl.load(long_row + number)
    if row < num_rows:
        begin = tl.load(long_first + number)
        end = tl.load(long_last + number)
        feature = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
        inside = feature < features
        total = tl.zeros([BLOCK_P, BLOCK_F], tl.float32)
        for first in range(begin, end, BLOCK_P):
            slot = first + tl.arange(0, BLOCK_P)
            at = partial + sample * partial_sample + slot.to(tl.int64)[:, None] * features
            read = (slot < end)[:, None] & inside[None, :]
            total += tl.load(at + feature[None, :], mask=read, other=0.0)
        to = out + row.to(tl.int64) * out_row + sample * out_sample + feature
        tl.store(to, tl.sum(total, axis=0).to(out.dtype.element_ty), mask=inside)
