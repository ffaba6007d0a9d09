"""The fused sum under a mask that has a ``Table``, and its gradient.

The backward pass walks the transpose once for three or so tables together: the multipliers give the
input's gradient, and the slopes give sums whose products with the input are the gradients of the
table's parameters.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphdrop.draws import Mask, Table
from graphdrop.graph import CSR
from graphdrop.kernels import cpu, loops
from graphdrop.kernels.buffers import empty
from graphdrop.kernels.passes import Pass, array, options_of
from graphdrop.kernels.tiles import LANES
from graphdrop.util.ordered import ordered_sum


@torch.compiler.disable  # type: ignore[untyped-decorator]
def aggregate(graph: CSR, x: Tensor, mask: Mask) -> Tensor:
    """The masked neighbourhood sum of float32 features on the CPU."""
    assert mask.table is not None  # noqa: S101 - whoever calls has looked
    out: Tensor = _Sum.apply(  # type: ignore[no-untyped-call]
        x, mask.table.parameters, graph, mask
    )
    return out


def _passes(graph: CSR, mask: Mask, features: int, transposed: bool = False) -> Pass:
    options = options_of(mask, features)
    return cpu.pass_over(cpu.plain_structure(graph), options, features, transposed)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, _parameters: Tensor, graph: CSR, mask: Mask) -> Tensor:
        # the input is read again only to differentiate the parameters
        ctx.save_for_backward(*([x] if ctx.needs_input_grad[1] else []))
        ctx.graph, ctx.mask = graph, mask
        return _masked_sum(_passes(graph, mask, x.shape[1]), x, mask)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        mask: Mask = ctx.mask
        pass_ = _passes(ctx.graph, mask, gradient.shape[1], transposed=True)
        if not ctx.needs_input_grad[1]:
            return _masked_sum(pass_, gradient, mask), None, None, None
        (x,), table = ctx.saved_tensors, mask.table
        assert table is not None  # noqa: S101
        sums = _sums_by_table(pass_, gradient, mask, table)
        moved = [ordered_sum((slope * x).sum(1, dtype=torch.float64)) for slope in sums[1:]]
        return sums[0], torch.stack(moved).to(table.parameters), None, None


def _masked_sum(pass_: Pass, x: Tensor, mask: Mask) -> Tensor:
    out = empty(pass_.rows, x.shape[1])
    rule = pass_.rule_of_table(mask)
    pass_.run(loops.sum_rows, mask.key.tolist(), rule, x, out)
    return out


def _sums_by_table(pass_: Pass, x: Tensor, mask: Mask, table: Table) -> list[Tensor]:
    """Sums with the same draws: times the multipliers, and times the slopes of each parameter."""
    entries = [pass_.written(one) for one in (table.multiplier, *table.slopes)]
    size, count = pass_.rows * x.shape[1], len(entries)
    out = torch.empty(count, -(-size // LANES) * LANES)  # each begins at a cache line
    keys, offsets = mask.key.expand(count, 2), torch.zeros(count, dtype=torch.int64)
    pass_.run(
        loops.sum_rows_of_samples,
        (array(keys),),
        pass_.rule_of_tables(entries),
        x,
        out,
        array(offsets),
        array(x.new_empty(0)),
    )
    return [one[:size].view(-1, x.shape[1]) for one in out.unbind()]
