"""The fused backend: one pass over the edges, masks drawn in registers, as a torch custom op.

``graphdrop::aggregate`` takes tensors only, the key among them, so a new step is a new value and
never a new compilation. Its backward pass runs over the transpose and draws the mask again.
"""

# ruff: noqa: PLR0917 - a custom op takes its tensors one by one

from __future__ import annotations

import logging
import math
import os
import threading
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphdrop import draws
from graphdrop.draws import Kind, Mask, Sharing
from graphdrop.graph import Graph
from graphdrop.kernels import loops, multipliers, tiles

if "NUMBA_THREADING_LAYER" not in os.environ:
    # OpenMP starts a parallel loop in microseconds and alternates well with torch's own threads.
    numba.config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]

_logger = logging.getLogger("graphdrop")
_KINDS = list(Kind)
MAX_EXPONENT = 709.0  # of a float64
_serial = threading.RLock()


class _Process:
    """What this process has done so far; a fork inherits threads that are not there."""

    started = False
    forked = False
    announced = False


def _after_fork() -> None:
    _Process.forked = _Process.started


os.register_at_fork(after_in_child=_after_fork)


def supports(mask: Mask) -> bool:
    """Whether the factors of a concrete mask are finite in the types that the loops keep them in.

    At lower temperatures a factor of float32 (one logit per edge) or float64 overflows.
    """
    coldest = 0.12 if mask.keep_logit.dim() == 1 else 0.02
    return mask.kind is not Kind.CONCRETE or mask.temperature >= coldest


def aggregate(graph: Graph, x: Tensor, mask: Mask) -> Tensor:
    """The masked neighbourhood sum of float32 features on the CPU."""
    blocks = 0 if mask.kind is Kind.NONE else mask.draws_per_edge(x.shape[1])
    options = [
        _KINDS.index(mask.kind),
        mask.sharing is Sharing.SOURCE,
        blocks,
        mask.symmetric,
        mask.self_loops,
        mask.antithetic,
    ]
    return torch.ops.graphdrop.aggregate(  # type: ignore[no-any-return]
        x,
        _structure(graph),
        # a hard mask has no derivative: estimators such as ARM bring their own
        mask.keep_logit if mask.kind is Kind.CONCRETE else mask.keep_logit.detach(),
        mask.key,
        torch.tensor(options, dtype=torch.int64),
        torch.tensor(mask.temperature, dtype=torch.float64),
    )


_structures: WeakKeyDictionary[Graph, list[Tensor]] = WeakKeyDictionary()


def _structure(graph: Graph) -> list[Tensor]:
    """A graph as a list of tensors: what the forward loop reads, then what the backward reads."""
    known = _structures.get(graph)
    if known is None:
        empty = torch.empty(0, dtype=torch.int32)
        rank, t_rank = graph.rank, graph.t_rank
        known = [
            graph.chunks,
            graph.indptr,
            graph.indices,
            graph.value,
            empty if graph.dst_ids is None else graph.dst_ids,
            graph.draw_src,
            empty if rank is None else rank,
            graph.t_chunks,
            graph.t_indptr,
            graph.t_indices,
            graph.t_value,
            empty if graph.src_ids is None else graph.src_ids,
            graph.t_draw_dst,
            empty if t_rank is None else t_rank,
            graph.t_edge,
        ]
        _structures[graph] = known
    return known


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
    options: Tensor,
    temperature: Tensor,
) -> Tensor:
    pass_ = _Pass(structure[:7], keep_logit, key, options, temperature)
    out = torch.empty(structure[1].shape[0] - 1, x.shape[1])
    pass_.run(loops.sum_rows, x, out, pass_.rule())
    return out


def _backward(
    gradient: Tensor,
    x: Tensor,
    structure: list[Tensor],
    keep_logit: Tensor,
    key: Tensor,
    options: Tensor,
    temperature: Tensor,
) -> tuple[Tensor, Tensor]:
    """Gradients for the input and, unless ``x`` is left out (empty), for the keep logit."""
    edge = structure[14]
    per_edge = keep_logit.dim() == 1
    transposed_logit = keep_logit[edge] if per_edge else keep_logit
    pass_ = _Pass(structure[7:14], transposed_logit, key, options, temperature, transposed=True)
    out = torch.empty(structure[8].shape[0] - 1, gradient.shape[1])
    if x.dim() == 1:
        pass_.run(loops.sum_rows, gradient, out, pass_.rule())
        return out, torch.zeros_like(keep_logit)
    slopes = np.zeros(edge.shape[0] if per_edge else out.shape[0])
    loop = loops.sum_rows_and_edge_slopes if per_edge else loops.sum_rows_and_slopes
    pass_.run(loop, gradient, out, pass_.rule(signed=True), _array(x), slopes)
    slopes /= pass_.temperature
    if not per_edge:
        return out, torch.tensor(slopes.sum(), dtype=keep_logit.dtype)
    logit_gradient = torch.empty_like(keep_logit)
    logit_gradient[edge] = torch.from_numpy(slopes).to(keep_logit.dtype)
    return out, logit_gradient


def _fake_forward(x: Tensor, structure: list[Tensor], *_: Tensor) -> Tensor:
    return x.new_empty(structure[1].shape[0] - 1, x.shape[1])


def _fake_backward(
    gradient: Tensor, _x: Tensor, structure: list[Tensor], keep_logit: Tensor, *_: Tensor
) -> tuple[Tensor, Tensor]:
    rows = structure[8].shape[0] - 1
    return gradient.new_empty(rows, gradient.shape[1]), torch.empty_like(keep_logit)


class _Aggregate(torch.autograd.Function):
    """The forward op with the backward op as its derivative."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        keep_logit: Tensor,
        structure: list[Tensor],
        key: Tensor,
        options: Tensor,
        temperature: Tensor,
    ) -> Tensor:
        # the input is read again only to differentiate the logit
        kept = x if ctx.needs_input_grad[1] else x.new_empty(0)
        ctx.save_for_backward(kept, keep_logit, key, options, temperature)
        ctx.structure = structure
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.graphdrop.aggregate(  # type: ignore[no-any-return]
                x, structure, keep_logit, key, options, temperature
            )

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        x, keep_logit, *rest = ctx.saved_tensors
        x_gradient, logit_gradient = torch.ops.graphdrop.aggregate_backward(
            gradient, x, ctx.structure, keep_logit, *rest
        )
        wants_x, wants_logit = ctx.needs_input_grad[:2]
        return (
            x_gradient if wants_x else None,
            logit_gradient if wants_logit else None,
            None,
            None,
            None,
            None,
        )


def _differentiable(
    x: Tensor, structure: list[Tensor], keep_logit: Tensor, *rest: Tensor
) -> Tensor:
    if torch.is_grad_enabled() and (x.requires_grad or keep_logit.requires_grad):
        return _Aggregate.apply(  # type: ignore[no-any-return, no-untyped-call]
            x, keep_logit, structure, *rest
        )
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.graphdrop.aggregate(  # type: ignore[no-any-return]
            x, structure, keep_logit, *rest
        )


for _name, _function, _level in (
    ("aggregate", _forward, "CPU"),
    ("aggregate", _differentiable, "Autograd"),
    ("aggregate_backward", _backward, "CPU"),
):
    _library.impl(_name, _function, _level)
torch.library.register_fake("graphdrop::aggregate", _fake_forward, lib=_library)
torch.library.register_fake("graphdrop::aggregate_backward", _fake_backward, lib=_library)


def _array(tensor: Tensor) -> NDArray[Any]:
    return tensor.detach().contiguous().numpy()


class _Pass:
    """One pass over the edges: the mask's options turned into what the loops take."""

    def __init__(
        self,
        structure: list[Tensor],
        keep_logit: Tensor,
        key: Tensor,
        options: Tensor,
        temperature: Tensor,
        transposed: bool = False,
    ) -> None:
        kind, source, self.blocks, symmetric, self_loops, self.antithetic = options.tolist()
        self.kind = _KINDS[kind]
        self.arrays = [tensor.numpy() for tensor in structure]
        self.keep_logit, self.temperature = keep_logit.detach(), float(temperature)
        self.key = [np.uint64(word & draws.MASK64) for word in key.tolist()]
        self.flags = (
            transposed * loops.TRANSPOSED
            | symmetric * loops.SYMMETRIC
            | source * loops.SOURCE
            | (not self_loops) * loops.KEEP_LOOPS
        )

    def rule(self, signed: bool = False) -> Any:
        """How a draw becomes a multiplier."""
        per_edge = self.keep_logit.dim() == 1
        if self.kind is Kind.NONE:
            return multipliers.Constant(np.float32(1.0))
        if self.kind is Kind.MEAN:
            keep = torch.sigmoid(self.keep_logit).to(torch.float32).numpy()
            return multipliers.ConstantPerEdge(keep) if per_edge else multipliers.Constant(keep[()])
        if self.kind is Kind.HARD:
            threshold = draws.drop_threshold(self.keep_logit).numpy()
            above, below = np.float32(1.0), np.float32(0.0)
            if self.antithetic:  # k -> 65535 - k: the draws below the mirrored threshold are kept
                threshold, above, below = (1 << draws.DRAW_BITS) - threshold, below, above
            if per_edge:
                return multipliers.HardPerEdge(threshold.astype(np.int32), above, below)
            return multipliers.Hard(int(threshold), above, below)
        # z = 1 / (1 + odds * ((1 - u) / u)^(1/t)); the second factor depends on t alone
        factors = _concrete_factors(self.temperature)
        if per_edge:
            table = factors[::-1] if self.antithetic else factors
            odds = torch.exp(-self.keep_logit.to(torch.float64) / self.temperature)
            return multipliers.ConcretePerEdge(
                np.ascontiguousarray(table, dtype=np.float32), odds.float().numpy()
            )
        cold = -float(self.keep_logit) / self.temperature
        odds_of_all = math.exp(cold) if cold < MAX_EXPONENT else math.inf
        entries = np.empty(factors.size, dtype=np.float32)
        loops.fill_table(entries, odds_of_all, factors, bool(self.antithetic), signed)
        return multipliers.Concrete(entries)

    def run(self, loop: Any, x: Tensor, out: Tensor, rule: Any, *more: NDArray[Any]) -> None:
        """Run a loop over every tile of features."""
        features = x.shape[1]
        blocks = 1 if self.kind in (Kind.NONE, Kind.MEAN) else self.blocks
        x_array, out_array = _array(x), out.numpy()
        _enter()
        with _one_at_a_time():
            for vectors, start, tail in _tiling(features):
                channel = _channel(features, blocks, start, len(vectors) * tiles.LANES)
                loop(
                    vectors, channel, rule, *self.arrays, *self.key, self.flags,
                    x_array, out_array, start, tail, *more,
                )  # fmt: skip


@lru_cache(maxsize=16)
def _concrete_factors(temperature: float) -> NDArray[np.float64]:
    """``((1 - u) / u)^(1/t)`` for every uniform that a concrete mask distinguishes."""
    logits = draws.concrete_logits(torch.float64).numpy()
    factors: NDArray[np.float64] = np.exp(-logits / temperature)
    return factors


@lru_cache(maxsize=256)
def _tiling(features: int) -> list[tuple[tuple[int, ...], int, int]]:
    """Tiles of 8, 4, 2 and 1 vectors that cover the features: (vectors, start, tail)."""
    plan = []
    start = 0
    while start < features:
        left = -(-(features - start) // tiles.LANES)
        count = min(tiles.MAX_VECTORS, 1 << (left.bit_length() - 1))
        end = min(start + count * tiles.LANES, features)
        plan.append(((0,) * count, start, end - start - (count - 1) * tiles.LANES))
        start = end
    return plan


@lru_cache(maxsize=1024)
def _channel(features: int, blocks: int, start: int, width: int) -> Any:
    """The cheapest channel that gives each feature of a tile the draw of its block."""
    if blocks == 1:
        return multipliers.Shared(0)
    if blocks == features:
        return multipliers.Features(0)
    block = draws.block_of_feature(features, blocks)
    padded = torch.nn.functional.pad(block, (0, -features % tiles.LANES), value=blocks - 1)
    vectors = padded.view(-1, tiles.LANES)
    if bool((vectors == vectors[:, :1]).all()):
        of_vector = vectors[:, 0]
        here = of_vector[start // tiles.LANES :][: width // tiles.LANES]
        found, sizes = np.unique(here.numpy(), return_counts=True)
        if (sizes == sizes[0]).all() and blocks <= tiles.LANES:
            return multipliers.EVEN_BLOCKS[len(found)](int(found[0]))
        if blocks <= multipliers.MAX_BLOCKS:
            return multipliers.Blocks(blocks, of_vector.to(torch.int32).numpy())
    counter = (padded // 32 * 16 + padded % 16) * draws.LANE_INCREMENT & draws.MASK32
    shift = padded // 16 % 2 * draws.DRAW_BITS
    return multipliers.Lanes(
        counter.numpy().astype(np.uint32).view(np.int32), shift.to(torch.int32).numpy()
    )


def _one_at_a_time() -> AbstractContextManager[Any]:
    """A lock where the threading layer cannot take two calls at once (only workqueue cannot)."""
    try:
        concurrent = numba.threading_layer() != "workqueue"
    except ValueError:  # no parallel loop has run yet, so the layer is not chosen
        concurrent = False
    return nullcontext() if concurrent else _serial


def _enter() -> None:
    """Follow torch's thread count, and say so once when kernels have to be compiled first."""
    if _Process.forked:
        raise RuntimeError(
            "the fused kernel ran in the parent before this process was forked, and its threads "
            "do not survive a fork: start workers with the 'spawn' method, or call "
            "aggregate(..., backend='reference')"
        )
    numba.set_num_threads(min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS))
    if not _Process.announced:
        _Process.announced = True
        directory = loops.cache_directory()
        if not directory.is_dir():
            _logger.warning(
                "compiling the kernels for this machine: a few seconds each, once (kept in %s)",
                directory,
            )
    _Process.started = True
