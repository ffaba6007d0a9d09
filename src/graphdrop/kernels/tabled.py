"""The fused sum under a mask that has a ``Table``, and its gradient.

The backward pass walks the transpose once for three or so tables together: the multipliers give the
input's gradient, and the slopes give sums whose products with the input are the gradients of the
table's parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphdrop.graph import CSR, Graph
from graphdrop.graph.masks import Mask
from graphdrop.kernels import cpu, loops
from graphdrop.kernels.buffers import empty
from graphdrop.kernels.passes import Pass, array, options_of


@torch.compiler.disable  # type: ignore[untyped-decorator]
def aggregate(graph: CSR, x: Tensor, mask: Mask) -> Tensor:
    """The masked neighbourhood sum of float32 features on the CPU."""
    assert mask.table is not None  # noqa: S101 - whoever calls has looked
    out: Tensor = _Sum.apply(  # type: ignore[no-untyped-call]
        x, mask.table.parameters, graph, mask
    )
    return out


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, _parameters: Tensor, graph: CSR, mask: Mask) -> Tensor:
        # the input is read again only to differentiate the parameters
        ctx.save_for_backward(*([x] if ctx.needs_input_grad[1] else []))
        ctx.graph, ctx.mask = graph, mask
        return _masked_sum(graph, x, mask)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        mask, graph = ctx.mask, ctx.graph
        if not ctx.needs_input_grad[1]:
            return _masked_sum(graph, gradient, mask, transposed=True), None, None, None
        (x,), table = ctx.saved_tensors, mask.table
        if mask.self_loops:
            passed, *moved = _sums_by_table(
                graph, gradient, mask, (table.multiplier, *table.slopes)
            )
        else:  # self-loops pass a gradient on and move with no parameter
            passed = _masked_sum(graph, gradient, mask, transposed=True)
            moved = _sums_by_table(_without_loops(graph), gradient, mask, tuple(table.slopes))
        slopes = [one.mul_(x).sum(dtype=torch.float64) for one in moved]
        return passed, torch.stack(slopes).to(table.parameters), None, None


def _pass(graph: CSR, mask: Mask, features: int, transposed: bool) -> Pass:
    options = options_of(mask, features)
    return cpu.pass_over(cpu.plain_structure(graph), options, features, transposed)


def _without_loops(graph: Graph) -> Graph:
    """The same edges, self-loops with the weight 0."""
    return graph.derived(
        "weights without loops",
        lambda: graph.with_values(torch.where(graph.self_loop, 0.0, graph.value)),
    )


def _masked_sum(graph: CSR, x: Tensor, mask: Mask, transposed: bool = False) -> Tensor:
    pass_ = _pass(graph, mask, x.shape[1], transposed)
    out = empty(pass_.rows, x.shape[1])
    pass_.run(loops.sum_rows, mask.key.tolist(), pass_.rule_of_table(mask), x, out)
    return out


def _sums_by_table(
    graph: CSR, gradient: Tensor, mask: Mask, tables: Sequence[Tensor]
) -> list[Tensor]:
    """Sums over the transpose with the mask's draws, each times the entries of another table."""
    features, count = gradient.shape[1], len(tables)
    pass_ = _pass(graph, mask, features, transposed=True)
    out = empty(pass_.rows, count * features)
    tables_in_order = [pass_.written(one) for one in tables]
    rule = pass_.rule_of_tables(tables_in_order)
    pass_.run(
        loops.sum_rows_of_samples, (array(mask.key.expand(count, 2)),), rule, gradient, out, 0
    )
    return list(out.view(-1, count, features).unbind(1))
