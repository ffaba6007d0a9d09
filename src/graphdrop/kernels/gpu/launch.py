"""From tensors to launches: tiles, the memory of partial sums, and the second stages.

Nothing here reads a tensor's value on the host: a launch can be recorded in a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from graphdrop.graph.masks import DRAW_BITS, Kind, Mask, drop_threshold, widest_logit
from graphdrop.kernels.gpu import rows
from graphdrop.kernels.gpu.rows import (
    BLOCKS,
    FEATURES,
    NO_SLOPES,
    SHARED,
    SLOPE_PER_EDGE,
    SLOPE_PER_MASK,
    TABLE,
)
from graphdrop.kernels.gpu.structure import Direction, num_slots
from graphdrop.kernels.passes import Form

TILE = 512
"""Features times edges that one warp holds at a time: 16 numbers for each of its 32 threads."""
WIDEST_TILE, NARROWEST_TILE = 128, 16
WARPS = 1
OPTIONS: dict[str, Any] = {"num_warps": WARPS, "enable_fp_fusion": True}
"""How kernels are compiled: multiplications are fused with additions, as CUDA does."""


class Rule(NamedTuple):
    """How draws become multipliers, as the kernel reads it."""

    form: Form
    rates: Tensor
    """``[samples]`` or ``[samples, E]``: thresholds, keep logits or keep probabilities."""
    keys: Tensor
    """``[samples, 2]`` int64."""
    temperature: float
    table: Tensor | None = None
    """``[entries]`` or ``[samples, entries]`` float32."""


def rule_of(masks: Sequence[Mask], rates: Tensor, features: int) -> Rule:
    """The rule of masks of one form.

    Args:
        masks: the mask of each sample.
        rates: their keep logits, ``[samples]`` or ``[samples, E]``.
        features: of every sample.
    """
    first, device = masks[0], rates.device
    keys = torch.stack([mask.key for mask in masks]).to(device, non_blocking=True)
    table, rates = None, rates.detach()
    if first.table is not None:
        entries = torch.stack([mask.table.multiplier for mask in masks if mask.table is not None])
        table = entries.to(device, torch.float32)
    elif first.kind is Kind.HARD:
        rates = drop_threshold(rates)
    elif first.kind is Kind.MEAN:
        rates = torch.sigmoid(rates.to(torch.float32))
    elif rates.dtype not in (torch.float32, torch.float64):
        rates = rates.to(torch.float32)
    form = Form.of(first, features)
    return Rule(form, rates.contiguous(), keys, first.temperature, table)


def tiling(features: int) -> tuple[int, int]:
    """Edges and features of a tile, both powers of 2."""
    width = min(WIDEST_TILE, max(NARROWEST_TILE, triton.next_power_of_2(features)))
    return TILE // width, width


def constants_of(rule: Rule, features: int, *, slopes: bool) -> dict[str, Any]:
    """The compile-time constants of ``rows.sum_rows`` that follow from a rule."""
    form, channel = rule.form, BLOCKS
    if form.blocks == 1 or form.kind is Kind.MEAN:
        channel = SHARED
    elif form.blocks == features:
        channel = FEATURES
    per_edge = rule.rates.dim() == 2 and rule.table is None
    kept = NO_SLOPES
    if slopes:
        kept = SLOPE_PER_EDGE if per_edge else SLOPE_PER_MASK
    block_e, block_f = tiling(features)
    return {
        "KIND": list(Kind).index(form.kind) if rule.table is None else TABLE.value,
        "CHANNEL": channel.value,
        "PER_EDGE": per_edge,
        "SOURCE": form.by_source,
        "SYMMETRIC": form.symmetric,
        "KEEP_LOOPS": not form.self_loops,
        "ANTITHETIC": form.antithetic,
        "SLOPES": kept.value,
        "BLOCK_E": block_e,
        "BLOCK_F": block_f,
    }


def sum_rows(
    direction: Direction,
    x: Tensor,
    rule: Rule,
    own: Tensor | None = None,
    slope_table: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Masked sums ``[rows, samples, features]``, and the derivatives by the rates.

    Args:
        direction: the edges by destination, or by source.
        x: ``[columns, samples or 1, features]``.
        rule: the masks of the samples.
        own: ``[rows, samples or 1, features]``; with it the derivatives of ``sum(out * own)`` by
            the mask's argument are computed: ``[samples]``, or ``[samples, E]``.
        slope_table: the slopes of a table's entries.
    """
    samples, features = rule.keys.shape[0], x.shape[2]
    num_rows, edges = direction.num_rows, direction.indices.shape[0]
    out = x.new_empty(num_rows, samples, features)
    x = x if x.stride(2) == 1 else x.contiguous()
    constants = constants_of(rule, features, slopes=own is not None)
    tiles = -(-features // constants["BLOCK_F"])
    segments = direction.segments
    per_edge, slopes = constants["PER_EDGE"], None
    if own is not None:
        own = own if own.stride(2) == 1 else own.contiguous()
        entries = edges if per_edge else segments.row.shape[0]
        # of every segment, also of those that a graph has no use for
        slopes = torch.zeros(tiles, samples, entries, dtype=torch.float32, device=x.device)
    parts = num_slots(edges)
    partial = torch.empty(samples, parts, features, dtype=torch.float32, device=x.device)
    none = direction.indices
    table = rule.table
    entries = 0 if table is None else table.shape[-1]
    with on_device(x):
        if tiles and segments.row.shape[0]:
            rows.sum_rows[(segments.row.shape[0], tiles, samples)](
                x,
                x if own is None else own,
                out,
                partial,
                partial if slopes is None else slopes,
                segments.row,
                segments.begin,
                segments.end,
                segments.slot,
                direction.indices,
                direction.value,
                none if direction.row_ids is None else direction.row_ids,
                none if direction.column_ids is None else direction.column_ids,
                none if direction.rank is None else direction.rank,
                none if direction.edge is None else direction.edge,
                rule.keys,
                rule.rates,
                partial if table is None else table,
                partial if slope_table is None else slope_table,
                num_rows,
                features,
                rule.form.blocks,
                DRAW_BITS - max(entries.bit_length() - 1, 0),
                x.stride(0),
                x.stride(1) if x.shape[1] > 1 else 0,
                0 if own is None else own.stride(0),
                own.stride(1) if own is not None and own.shape[1] > 1 else 0,
                out.stride(0),
                out.stride(1),
                parts * features,
                0 if slopes is None else slopes.stride(0),
                0 if slopes is None else slopes.stride(1),
                rule.rates.stride(0) if rule.rates.dim() and table is None else 0,
                entries if table is not None and table.dim() == 2 else 0,
                widest_logit(rule.temperature),
                1.0 / rule.temperature,
                TRANSPOSED=direction.edge is not None,
                NAMED_ROWS=direction.row_ids is not None,
                NAMED_COLUMNS=direction.column_ids is not None,
                RANKED=direction.rank is not None,
                **constants,
                **OPTIONS,
            )
            if parts:
                rows.add_parts[(segments.long_row.shape[0], tiles, samples)](
                    partial,
                    out,
                    segments.long_row,
                    segments.long_first,
                    segments.long_last,
                    num_rows,
                    features,
                    parts * features,
                    out.stride(0),
                    out.stride(1),
                    BLOCK_P=constants["BLOCK_E"],
                    BLOCK_F=constants["BLOCK_F"],
                    **OPTIONS,
                )
    if slopes is None:
        return out, None
    # the second stage: a sum in float64 and in a fixed order, over tiles and segments
    over = (0,) if per_edge else (0, 2)
    return out, slopes.sum(over, dtype=torch.float64)


def on_device(tensor: Tensor) -> AbstractContextManager[Any]:
    """Launch on the device of a tensor, which need not be the current one."""
    if not tensor.is_cuda:
        return nullcontext()
    return torch.cuda.device_of(tensor)  # type: ignore[no-untyped-call]
