"""Sums over distinct draws in Triton, for the gradients of ARM and similar estimators.

Sums are of whole numbers, hence exact: one program adds up some edges, torch the programs.
"""

# ruff: noqa: PLR0917 - a kernel takes its arrays one by one, and constants in capitals
# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl

from graphdrop.kernels.gpu.draws import draw_values, edge_bits


@triton.jit(do_not_specialize=["edges", "draws", "sums_row"])
def count_draws(
    destinations,
    sources,
    ranks,
    thresholds,
    keys,
    sums,
    edges,
    draws,
    sums_row,
    PER_EDGE: tl.constexpr,
    SOURCE: tl.constexpr,
    SYMMETRIC: tl.constexpr,
    RANKED: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """The sum of draws, how many are kept, and how many in the antithetic pass."""
    program = tl.program_id(0)
    edge = program * BLOCK_E + tl.arange(0, BLOCK_E)
    valid = edge < edges
    destination = tl.load(destinations + edge, mask=valid, other=0).to(tl.int64)
    source = tl.load(sources + edge, mask=valid, other=0).to(tl.int64)
    rank = edge
    if RANKED:
        rank = tl.load(ranks + edge, mask=valid, other=0)
    if PER_EDGE:
        threshold = tl.load(thresholds + edge, mask=valid, other=0)[:, None]
    else:
        threshold = tl.load(thresholds)
    first_key = tl.load(keys).to(tl.uint64, bitcast=True)
    second_key = tl.load(keys + 1).to(tl.uint64, bitcast=True)
    bits = edge_bits(destination, source, rank, first_key, second_key, SOURCE, SYMMETRIC, RANKED)
    total = tl.zeros([BLOCK_E], tl.int64)
    kept = tl.zeros([BLOCK_E], tl.int64)
    opposite = tl.zeros([BLOCK_E], tl.int64)
    for first in range(0, draws, BLOCK_D):
        number = first + tl.arange(0, BLOCK_D)
        counted = valid[:, None] & (number < draws)[None, :]
        value = draw_values(bits, number, False)
        mirrored = draw_values(bits, number, True)
        total += tl.sum(tl.where(counted, value, 0), axis=1).to(tl.int64)
        kept += tl.sum((counted & (value >= threshold)).to(tl.int32), axis=1).to(tl.int64)
        opposite += tl.sum((counted & (mirrored >= threshold)).to(tl.int32), axis=1).to(tl.int64)
    if PER_EDGE:
        tl.store(sums + edge, total, mask=valid)
        tl.store(sums + sums_row + edge, kept, mask=valid)
        tl.store(sums + 2 * sums_row + edge, opposite, mask=valid)
    else:
        tl.store(sums + program, tl.sum(total, axis=0))
        tl.store(sums + sums_row + program, tl.sum(kept, axis=0))
        tl.store(sums + 2 * sums_row + program, tl.sum(opposite, axis=0))
