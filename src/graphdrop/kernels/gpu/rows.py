"""The masked sum over rows in Triton, its gradients, and the second stage of long rows.

One program sums one segment of a row, one tile of features and one sample. It walks the edges
``BLOCK_E`` at a time, computes their draws in registers and gathers their rows of ``x``. Sums are
float32 in a fixed order, without atomic operations: a result has the same bits in every run.

The gradient to ``x`` is the same sum over the transpose. On that walk the gradient to the keep
logit comes along: the slopes of the masks times the row of ``x`` that the program belongs to.
"""

# ruff: noqa: PLR0912, PLR0915, PLR0917, PLR1714 - a kernel is one function with its cases in it
# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl

from graphdrop.kernels.gpu.draws import (
    CONCRETE,
    FEATURES,
    HARD,
    MEAN,
    NONE,
    SHARED,
    TABLE,
    block_numbers,
    draw_values,
    edge_bits,
    relaxed,
)

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
