"""The fused backend: one pass over the edges, masks drawn in registers, as a torch custom op.

``graphdrop::aggregate`` takes tensors only, the key among them, so a new step is a new value and
never a new compilation. Its backward pass runs over the transpose and draws the mask again.
"""

# ruff: noqa: PLR0917 - a custom op takes its tensors one by one

from __future__ import annotations

import logging
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
_serial = threading.RLock()


class _Process:
    """What this process has done so far; a fork inherits threads that are not there."""

    started = False
    forked = False
    announced = False


def _after_fork() -> None:
    _Process.forked = _Process.started


os.register_at_fork(after_in_child=_after_fork)


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
    return _aggregate(  # type: ignore[no-any-return]
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


@torch.library.custom_op("graphdrop::aggregate", mutates_args=(), device_types="cpu")
def _aggregate(
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


@_aggregate.register_fake
def _(
    x: Tensor,
    structure: list[Tensor],
    keep_logit: Tensor,  # noqa: ARG001
    key: Tensor,  # noqa: ARG001
    options: Tensor,  # noqa: ARG001
    temperature: Tensor,  # noqa: ARG001
) -> Tensor:
    return x.new_empty(structure[1].shape[0] - 1, x.shape[1])


@torch.library.custom_op("graphdrop::aggregate_backward", mutates_args=(), device_types="cpu")
def _aggregate_backward(
    gradient: Tensor,
    x: Tensor,
    structure: list[Tensor],
    keep_logit: Tensor,
    key: Tensor,
    options: Tensor,
    temperature: Tensor,
    wants_logit: Tensor,
) -> tuple[Tensor, Tensor]:
    edge = structure[14]
    per_edge = keep_logit.dim() == 1
    transposed_logit = keep_logit[edge] if per_edge else keep_logit
    pass_ = _Pass(structure[7:14], transposed_logit, key, options, temperature, transposed=True)
    out = torch.empty(structure[8].shape[0] - 1, gradient.shape[1])
    if not bool(wants_logit):
        pass_.run(loops.sum_rows, gradient, out, pass_.rule())
        return out, torch.zeros_like(keep_logit)
    slopes = np.zeros(edge.shape[0] if per_edge else out.shape[0])
    loop = loops.sum_rows_and_edge_slopes if per_edge else loops.sum_rows_and_slopes
    pass_.run(loop, gradient, out, pass_.rule(signed=True), _array(x), slopes)
    slopes /= float(temperature)
    if not per_edge:
        return out, torch.tensor(slopes.sum(), dtype=keep_logit.dtype)
    logit_gradient = torch.empty_like(keep_logit)
    logit_gradient[edge] = torch.from_numpy(slopes).to(keep_logit.dtype)
    return out, logit_gradient


@_aggregate_backward.register_fake
def _(
    gradient: Tensor,
    x: Tensor,  # noqa: ARG001
    structure: list[Tensor],
    keep_logit: Tensor,
    key: Tensor,  # noqa: ARG001
    options: Tensor,  # noqa: ARG001
    temperature: Tensor,  # noqa: ARG001
    wants_logit: Tensor,  # noqa: ARG001
) -> tuple[Tensor, Tensor]:
    rows = structure[8].shape[0] - 1
    return gradient.new_empty(rows, gradient.shape[1]), torch.empty_like(keep_logit)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001
    x, structure, keep_logit, key, options, temperature = inputs
    # the input is read again only to differentiate the logit
    wants_logit = keep_logit.requires_grad
    kept = x if wants_logit else x.new_empty(0)
    ctx.save_for_backward(kept, *structure, keep_logit, key, options, temperature)
    ctx.wants_logit = wants_logit


def _backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    x, *structure, keep_logit, key, options, temperature = ctx.saved_tensors
    x_gradient, logit_gradient = _aggregate_backward(
        gradient,
        x,
        structure,
        keep_logit,
        key,
        options,
        temperature,
        torch.tensor(ctx.wants_logit),
    )
    return (
        x_gradient if ctx.needs_input_grad[0] else None,
        [None] * len(structure),
        logit_gradient if ctx.wants_logit else None,
        None,
        None,
        None,
    )


_aggregate.register_autograd(_backward, setup_context=_setup_context)


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
        logits = draws.concrete_logits(torch.float64)
        if self.antithetic:
            logits = -logits
        if per_edge:
            table = torch.exp(-logits / self.temperature).to(torch.float32)
            odds = torch.exp(-self.keep_logit.to(torch.float64) / self.temperature)
            return multipliers.ConcretePerEdge(table.numpy(), odds.float().numpy())
        argument = (logits + self.keep_logit.to(torch.float64)) / self.temperature
        table = torch.sigmoid(argument)
        if signed:
            table = torch.where(argument > 0.0, -torch.sigmoid(-argument), table)
        return multipliers.Concrete(table.to(torch.float32).numpy())

    def run(self, loop: Any, x: Tensor, out: Tensor, rule: Any, *more: NDArray[Any]) -> None:
        """Run a loop over every tile of features."""
        features = x.shape[1]
        channel = (
            multipliers.Shared(0)
            if self.kind in (Kind.NONE, Kind.MEAN)
            else _channel(features, self.blocks)
        )
        x_array, out_array = _array(x), out.numpy()
        _enter()
        with _one_at_a_time():
            for vectors, start, tail in _tiling(features):
                loop(
                    vectors, channel, rule, *self.arrays, *self.key, self.flags,
                    x_array, out_array, start, tail, *more,
                )  # fmt: skip


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


@lru_cache(maxsize=256)
def _channel(features: int, blocks: int) -> Any:
    """The cheapest channel that gives each feature the draw of its block."""
    if blocks == 1:
        return multipliers.Shared(0)
    if blocks == features:
        return multipliers.Features(0)
    block = draws.block_of_feature(features, blocks)
    padded = torch.nn.functional.pad(block, (0, -features % tiles.LANES), value=blocks - 1)
    vectors = padded.view(-1, tiles.LANES)
    whole = bool((vectors == vectors[:, :1]).all())
    if whole and blocks <= multipliers.MAX_BLOCKS:
        return multipliers.Blocks(blocks, vectors[:, 0].to(torch.int32).numpy())
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
