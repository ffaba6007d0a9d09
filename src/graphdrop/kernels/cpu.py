"""The fused CPU backend: one pass over the edges, with masks computed in registers.

It is the torch custom op ``graphdrop::aggregate``. All its arguments are tensors, the key too, so
that a new step needs no compilation. The backward pass runs over the transpose and computes the
mask again.
"""

# ruff: noqa: PLR0917 - a custom op takes its tensors one by one

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphdrop.graph import CSR, Graph
from graphdrop.graph.masks import Kind, Mask, reads_all_bits
from graphdrop.kernels import loops
from graphdrop.kernels.buffers import empty
from graphdrop.kernels.passes import Options, Pass, array, options_of

COLDEST, COLDEST_PER_EDGE, COLDEST_PER_EDGE_OF_TOP_BITS = 0.02, 0.14, 0.12
"""The lowest temperatures of concrete masks that the loops support; see ``supports``."""


def supports(mask: Mask) -> bool:
    """Whether the factors of a concrete mask are finite in the types of the loops.

    At lower temperatures a factor of float32 (one logit per edge) or float64 overflows: sooner
    where all bits of a draw are read, of which the extreme ones have the larger factors.
    """
    if mask.kind is not Kind.CONCRETE or mask.table is not None:
        return True
    if mask.keep_logit.dim() == 0:
        return mask.temperature >= COLDEST
    if mask.temperature >= COLDEST_PER_EDGE:
        return True
    whole = reads_all_bits(mask.keep_logit, mask.temperature)
    return mask.temperature >= COLDEST_PER_EDGE_OF_TOP_BITS and not bool(whole.any())


def aggregate(graph: CSR, x: Tensor, mask: Mask) -> Tensor:
    """The masked neighbourhood sum of float32 features on the CPU."""
    options = options_of(mask, x.shape[1])
    logit = mask.keep_logit
    if mask.kind is not Kind.CONCRETE and logit.requires_grad:
        # a hard mask has no derivative: estimators such as ARM bring their own
        logit = logit.detach()
    if is_plain(x):
        rest = (plain_structure(graph), logit, mask.key, options, mask.temperature)
        if torch.is_grad_enabled() and (x.requires_grad or logit.requires_grad):
            return _Aggregate.apply(x, *rest)  # type: ignore[no-any-return, no-untyped-call]
        return _forward(x, *rest)
    return torch.ops.graphdrop.aggregate(  # type: ignore[no-any-return]
        x,
        _structure(graph),
        logit,
        mask.key,
        torch.tensor(options, dtype=torch.int64),
        torch.tensor(mask.temperature, dtype=torch.float64),
    )


def is_plain(x: Tensor) -> bool:
    """Whether the op can be called directly, without torch's dispatcher.

    The dispatcher takes half as long as the sum on a graph like Cora. Compilers, profilers, tracers
    and tensor subclasses need the registered op.
    """
    return (
        type(x) in (Tensor, torch.nn.Parameter)
        and not torch.compiler.is_compiling()
        and not torch._C._autograd._profiler_enabled()
    )


def _structure(graph: CSR) -> list[Tensor]:
    """A graph as a list of tensors: those of the forward loop, then those of the backward loop."""
    return graph.derived("fused structure", lambda: _tensors(graph))


def _tensors(matrix: CSR) -> list[Tensor]:
    rows = [matrix.chunks, matrix.indptr, matrix.indices, matrix.value]
    columns = [matrix.t_chunks, matrix.t_indptr, matrix.t_indices, matrix.t_value]
    none = torch.empty(0, dtype=torch.int32)
    if isinstance(matrix, Graph):
        ids = (matrix.dst_ids, matrix.draw_src, matrix.rank)
        t_ids = (matrix.src_ids, matrix.t_draw_dst, matrix.t_rank)
    else:  # nothing is drawn
        ids, t_ids = (None, matrix.indices, None), (None, matrix.t_indices, None)
    named, t_named = ([none if one is None else one for one in part] for part in (ids, t_ids))
    return [*rows, *named, *columns, *t_named, matrix.t_edge]


class _WithPasses(list[Tensor]):
    """A structure with cached passes, whose construction takes as long as a small graph's sum."""

    def __init__(self, tensors: list[Tensor]) -> None:
        super().__init__(tensors)
        self.known: dict[tuple[Any, ...], Pass] = {}


def plain_structure(graph: CSR) -> _WithPasses:
    """A graph as a list of tensors, with its cached passes."""
    return graph.derived("fused passes", lambda: _WithPasses(_structure(graph)))


def pass_over(
    structure: list[Tensor], options: Options, features: int, transposed: bool = False
) -> Pass:
    """The pass over a graph's edges, by destination or by source."""
    if isinstance(structure, _WithPasses):
        key = (options, features, transposed)
        if key not in structure.known:
            structure.known[key] = _make_pass(structure, *key)
        return structure.known[key]
    return _make_pass(structure, options, features, transposed)


def _make_pass(structure: list[Tensor], options: Options, features: int, transposed: bool) -> Pass:
    chosen = options if isinstance(options, tuple) else tuple(options.tolist())
    tensors = structure[7:14] if transposed else structure[:7]
    return Pass([tensor.numpy() for tensor in tensors], chosen, features, transposed)


# The decorators of torch.library cost several hundred microseconds a call where a list of tensors
# is saved for the backward pass; registering at the dispatcher by hand costs a tenth of it.
_library: Any = torch.library.Library("graphdrop", "FRAGMENT")  # type: ignore[no-untyped-call]
_MASK = "Tensor[] structure, Tensor keep_logit, Tensor key, Tensor options, Tensor temperature"
_library.define(f"aggregate(Tensor x, {_MASK}) -> Tensor")
_library.define(f"aggregate_backward(Tensor gradient, Tensor x, {_MASK}) -> (Tensor, Tensor)")


def _forward(
    x: Tensor,
    structure: list[Tensor],
    keep_logit: Tensor,
    key: Tensor,
    options: Options,
    temperature: Tensor | float,
) -> Tensor:
    pass_ = pass_over(structure, options, x.shape[1])
    out = empty(pass_.rows, x.shape[1])
    rule = pass_.rule(keep_logit, float(temperature))
    pass_.run(loops.sum_rows, key.tolist(), rule, x, out)
    return out


def _backward(
    gradient: Tensor,
    x: Tensor,
    structure: list[Tensor],
    keep_logit: Tensor,
    key: Tensor,
    options: Options,
    temperature: Tensor | float,
    wants_x: bool = True,
) -> tuple[Tensor, Tensor]:
    """Gradients for the input and, unless ``x`` is left out (empty), for the keep logit.

    The first layer's input is data: its gradient, a matrix of its size, is not written.
    """
    edge = structure[14]
    per_edge = keep_logit.dim() == 1
    logit, temperature = keep_logit[edge] if per_edge else keep_logit, float(temperature)
    pass_ = pass_over(structure, options, gradient.shape[1], transposed=True)
    out = empty(pass_.rows if wants_x else 0, gradient.shape[1])
    if x.dim() == 1:
        rule = pass_.rule(logit, temperature)
        pass_.run(loops.sum_rows, key.tolist(), rule, gradient, out)
        return out, torch.zeros_like(keep_logit)
    slopes = np.zeros(edge.shape[0] if per_edge else pass_.rows)
    rule = pass_.rule(logit, temperature, signed=True)
    pass_.run(loops.sum_rows_and_slopes, key.tolist(), rule, gradient, out, array(x), slopes)
    slopes /= temperature
    if not per_edge:
        return out, torch.tensor(slopes.sum(), dtype=keep_logit.dtype)
    logit_gradient = torch.empty_like(keep_logit)
    logit_gradient[edge] = torch.from_numpy(slopes).to(keep_logit.dtype)
    return out, logit_gradient


_unseen_backward: Any = torch.compiler.disable(  # type: ignore[no-untyped-call]
    _backward
)


def _fake_forward(x: Tensor, structure: list[Tensor], *_: Tensor) -> Tensor:
    return x.new_empty(structure[1].shape[0] - 1, x.shape[1])


def _fake_backward(
    gradient: Tensor, _x: Tensor, structure: list[Tensor], keep_logit: Tensor, *_: Tensor
) -> tuple[Tensor, Tensor]:
    rows = structure[8].shape[0] - 1
    return gradient.new_empty(rows, gradient.shape[1]), torch.empty_like(keep_logit)


class _Aggregate(torch.autograd.Function):
    """The forward pass with the backward pass as its derivative."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        structure: list[Tensor],
        keep_logit: Tensor,
        key: Tensor,
        options: Options,
        temperature: Tensor | float,
    ) -> Tensor:
        # the input is read again only to differentiate the logit
        ctx.save_for_backward(x if ctx.needs_input_grad[2] else x.new_empty(0), keep_logit)
        ctx.structure, ctx.rest = structure, (key, options, temperature)
        arguments = (x, structure, keep_logit, key, options, temperature)
        if isinstance(options, tuple):
            return _forward(*arguments)
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.graphdrop.aggregate(*arguments)  # type: ignore[no-any-return]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        x, keep_logit = ctx.saved_tensors
        wants_x, _, wants_logit = ctx.needs_input_grad[:3]
        arguments = (gradient, x, ctx.structure, keep_logit, *ctx.rest)
        if isinstance(ctx.rest[1], tuple):
            # Dynamo follows autograd in here, after a compiled function has called backward()
            traced = torch.compiler.is_compiling()
            compute: Any = _unseen_backward if traced else _backward
            gradients = compute(*arguments, wants_x)
        else:
            gradients = torch.ops.graphdrop.aggregate_backward(*arguments)
        return (
            gradients[0] if wants_x else None,
            None,
            gradients[1] if wants_logit else None,
            None,
            None,
            None,
        )


def _differentiable(x: Tensor, structure: list[Tensor], *rest: Tensor) -> Tensor:
    if torch.is_grad_enabled() and (x.requires_grad or rest[0].requires_grad):
        return _Aggregate.apply(  # type: ignore[no-any-return, no-untyped-call]
            x, structure, *rest
        )
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.graphdrop.aggregate(x, structure, *rest)  # type: ignore[no-any-return]


for _name, _function, _level in (
    ("aggregate", _forward, "CPU"),
    ("aggregate", _differentiable, "Autograd"),
    ("aggregate_backward", _backward, "CPU"),
):
    _library.impl(_name, _function, _level)
torch.library.register_fake("graphdrop::aggregate", _fake_forward, lib=_library)
torch.library.register_fake("graphdrop::aggregate_backward", _fake_backward, lib=_library)
