"""One pass over the edges on the CPU: what the compiled loops take, from a graph and masks."""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphdrop.graph import CSR, Graph
from graphdrop.graph.masks import (
    DRAW_BITS,
    TABLE_BITS,
    Kind,
    Mask,
    Sharing,
    block_of_feature,
    concrete_logits,
    drop_threshold,
    drop_threshold_of,
    reads_all_bits,
    widest_logit,
)
from graphdrop.kernels import loops, multipliers, tiles
from graphdrop.kernels.threads import waiting

if "NUMBA_THREADING_LAYER" not in os.environ:
    # OpenMP starts a parallel loop in microseconds and alternates well with torch's own threads.
    numba.config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]

_logger = logging.getLogger("graphdrop")
NEAR_BYTES = 1 << 21
"""Features of no more bytes than this stay in the caches of a core."""
MAX_EXPONENT = 709.0  # of a float64
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)


class Form(NamedTuple):
    """The options of a mask over some features, without its key and its rates."""

    kind: Kind
    blocks: int
    """The number of draws of an edge."""
    by_source: bool
    symmetric: bool
    self_loops: bool
    antithetic: bool

    @staticmethod
    def of(mask: Mask, features: int) -> Form:
        """The form of a mask over so many features."""
        return Form(
            mask.kind,
            0 if mask.kind is Kind.NONE else mask.draws_per_edge(features),
            mask.sharing is Sharing.SOURCE,
            mask.symmetric,
            mask.self_loops,
            mask.antithetic,
        )


def array(tensor: Tensor) -> NDArray[Any]:
    """A tensor as the array that the loops read, copied only if necessary."""
    return tensor.detach().contiguous().numpy()


class Pass:
    """What passes over one graph with masks of one form share: made once, used in every step."""

    def __init__(self, graph: CSR, form: Form, features: int, *, transposed: bool) -> None:
        self.arrays = [array(tensor) for tensor in _tensors(graph, transposed)]
        self.rows = len(self.arrays[1]) - 1
        self.kind, self.antithetic = form.kind, form.antithetic
        self.flags = (
            transposed * loops.TRANSPOSED
            | form.symmetric * loops.SYMMETRIC
            | form.by_source * loops.SOURCE
            | (not form.self_loops) * loops.KEEP_LOOPS
        )
        drawn = 1 if self.kind in (Kind.NONE, Kind.MEAN) else form.blocks
        self.tiles = [
            (vectors, _channel(features, drawn, start, len(vectors) * tiles.LANES), start, tail)
            for vectors, start, tail in _tiling(features)
        ]

    def rule(self, mask: Mask, *, signed: bool = False) -> Any:
        """How a draw becomes a multiplier."""
        logit = mask.keep_logit.detach()
        per_edge = logit.dim() == 1
        if self.kind is Kind.NONE:
            return multipliers.Constant(_ONE)
        if self.kind is Kind.MEAN:
            keep = torch.sigmoid(logit).to(torch.float32).numpy()
            return multipliers.ConstantPerEdge(keep) if per_edge else multipliers.Constant(keep[()])
        if self.kind is Kind.HARD:
            if per_edge:
                return multipliers.HardPerEdge(*self._mirror(drop_threshold(logit).numpy()))
            return multipliers.Hard(*self._mirror(drop_threshold_of(float(logit))))
        if per_edge:
            odds = torch.exp(-logit.to(torch.float64) / mask.temperature)
            whole = reads_all_bits(logit, mask.temperature).numpy()
            factors = _factors_per_edge(mask.temperature, self.antithetic, bool(whole.any()))
            return multipliers.ConcretePerEdge(factors, odds.float().numpy(), whole.view(np.uint8))
        table = self._table(mask, signed)
        return multipliers.Concrete(table, _shift(table))

    def rule_of_samples(self, masks: Sequence[Mask]) -> Any:
        """The rules of several masks with one logit each, to be read by the sample's number."""
        if self.kind is Kind.HARD:
            thresholds = [drop_threshold_of(float(mask.keep_logit)) for mask in masks]
            return multipliers.HardPerEdge(*self._mirror(np.array(thresholds, dtype=np.int32)))
        tables = [self._table(mask) for mask in masks]
        size = max(map(len, tables))  # a table of the top bits serves as one of all bits
        tables = [table.repeat(size // len(table)) for table in tables]
        return multipliers.ConcretePerSample(np.concatenate(tables), _shift(tables[0]))

    def _table(self, mask: Mask, signed: bool = False) -> NDArray[np.float32]:
        if mask.table is None:
            return _table(float(mask.keep_logit), mask.temperature, self.antithetic, signed)
        entries = mask.table.multiplier.to(torch.float32).numpy()
        return np.ascontiguousarray(entries[::-1]) if self.antithetic else entries

    def _mirror(self, threshold: Any) -> tuple[Any, np.float32, np.float32]:
        """The threshold, and the multipliers above and below it."""
        if self.antithetic:  # k -> 65535 - k: the draws below the mirrored threshold are kept
            return (1 << DRAW_BITS) - threshold, _ZERO, _ONE
        return threshold, _ONE, _ZERO

    def run(
        self, loop: Any, keys: Sequence[Any], rule: Any, x: Tensor, out: Tensor, *more: Any
    ) -> None:
        """Run a loop over every tile of features; ``keys`` is the mask's key, or several."""
        x_array, out_array = array(x), out.numpy()
        flags = self.flags | (loops.FAR if x_array.nbytes > NEAR_BYTES else 0)
        with enter_loops():
            for vectors, channel, start, tail in self.tiles:
                loop(
                    vectors, channel, rule, *self.arrays, *keys, flags,
                    x_array, out_array, start, tail, *more,
                )  # fmt: skip


def _shift(table: NDArray[np.float32]) -> int:
    """The number of low bits of a draw that a table does not read."""
    return DRAW_BITS - (len(table).bit_length() - 1)


def pass_over(graph: CSR, mask: Mask, features: int, *, transposed: bool = False) -> Pass:
    """The pass over a graph's edges under masks of this form, by destination or by source."""
    form = Form.of(mask, features)
    return graph.derived(
        ("pass", form, features, transposed),
        lambda: Pass(graph, form, features, transposed=transposed),
    )


def _tensors(graph: CSR, transposed: bool) -> list[Tensor]:
    """A graph as the loops read it: chunks, CSR, the ids of rows and of columns, and the ranks."""
    ids: tuple[Tensor | None, Tensor, Tensor | None]
    if transposed:
        parts = [graph.t_chunks, graph.t_indptr, graph.t_indices, graph.t_value]
        ids = None, graph.t_indices, None  # nothing is drawn of a matrix that is no graph
        if isinstance(graph, Graph):
            ids = graph.src_ids, graph.t_draw_dst, graph.t_rank
    else:
        parts = [graph.chunks, graph.indptr, graph.indices, graph.value]
        ids = None, graph.indices, None
        if isinstance(graph, Graph):
            ids = graph.dst_ids, graph.draw_src, graph.rank
    none = torch.empty(0, dtype=torch.int32)
    return [*parts, *(none if each is None else each for each in ids)]


@lru_cache(maxsize=64)
def _table(
    keep_logit: float, temperature: float, antithetic: bool, signed: bool
) -> NDArray[np.float32]:
    """The concrete multiplier of every draw: a rate that does not change needs one table.

    Signed, an entry is ``z - 1`` where that is nearer to 0 than ``z``.
    """
    # z = 1 / (1 + odds * ((1 - u) / u)^(1/t)); the second factor depends on t alone
    cold = -keep_logit / temperature
    odds = math.exp(cold) if cold < MAX_EXPONENT else math.inf
    # a certain mask is the same at every draw
    whole = widest_logit(temperature) < abs(keep_logit) < math.inf
    factors = _concrete_factors(temperature, DRAW_BITS if whole else TABLE_BITS)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = odds * (factors[::-1] if antithetic else factors)
        kept = 1.0 / (1.0 + ratio)
        entries = np.where(ratio < 1.0, -ratio * kept, kept) if signed else kept
    return entries.astype(np.float32)


@lru_cache(maxsize=16)
def _factors_per_edge(temperature: float, antithetic: bool, whole: bool) -> NDArray[np.float32]:
    """The factors of the top bits of a draw and, if they are read, those of all its bits."""
    tables = [_concrete_factors(temperature, TABLE_BITS)]
    if whole:
        tables.append(_concrete_factors(temperature, DRAW_BITS))
    return np.concatenate(
        [table[::-1] if antithetic else table for table in tables],
        dtype=np.float32,
        casting="same_kind",
    )


@lru_cache(maxsize=16)
def _concrete_factors(temperature: float, bits: int) -> NDArray[np.float64]:
    """``((1 - u) / u)^(1/t)`` for every uniform that so many bits distinguish."""
    logits = concrete_logits(torch.float64, bits=bits).numpy()
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
    if blocks == features > 1:
        return multipliers.Features(0)
    block = block_of_feature(features, blocks)
    padded = torch.nn.functional.pad(block, (0, -features % tiles.LANES), value=blocks - 1)
    vectors = padded[start : start + width].view(-1, tiles.LANES)
    if blocks <= tiles.LANES and bool((vectors == vectors[:, :1]).all()):
        found, sizes = np.unique(vectors[:, 0].numpy(), return_counts=True)
        if (sizes == sizes[0]).all():
            channels = {count: channel for channel, count in multipliers.EVEN_BLOCKS.items()}
            return channels[len(found)](int(found[0]))
    counter, half = padded // 32 * 16 + padded % 16, padded // 16 % 2 * DRAW_BITS
    return multipliers.Lanes(counter.to(torch.int32).numpy(), half.to(torch.int32).numpy())


class _Process:
    """The state of this process; after a fork the threads of the parent do not exist."""

    started = False
    child = False
    forked = False
    announced = False
    concurrent = False


def _note_fork() -> None:
    _Process.child = True
    _Process.forked = _Process.started


os.register_at_fork(after_in_child=_note_fork)
_serial, _no_lock = threading.RLock(), nullcontext()


def enter_loops() -> AbstractContextManager[Any]:
    """Prepare threads for compiled loops, which are to run under the context that is returned.

    They use torch's number of threads. The context is a lock if the threading layer does not
    support concurrent calls, as workqueue does not. The first call in a process logs whether
    kernels must be compiled.
    """
    if _Process.forked:
        raise RuntimeError(
            "the fused kernel ran in the parent before this process was forked, and its threads "
            "do not survive a fork: start workers with the 'spawn' method, or call "
            "aggregate(..., backend='reference')"
        )
    threads = torch.get_num_threads()
    # a forked process has lost the threads of OpenMP that torch may have started: one needs none
    available = 1 if _Process.child else numba.config.NUMBA_NUM_THREADS
    if numba.get_num_threads() != min(threads, available):
        numba.set_num_threads(min(threads, available))
    if torch.get_num_threads() != threads:
        # the first call starts Numba's OpenMP threads and thereby sets the number for all of
        # OpenMP, torch included
        torch.set_num_threads(threads)
    if threads > 1 and not _Process.child:
        waiting.look()
    if not _Process.announced:
        _Process.announced = True
        directory = loops.cache_directory()
        if not directory.is_dir():
            _logger.warning(
                "compiling the kernels for this machine: a few seconds each, once (kept in %s)",
                directory,
            )
    _Process.started = True
    if not _Process.concurrent:
        try:
            _Process.concurrent = numba.threading_layer() != "workqueue"
        except ValueError:  # no parallel loop has run yet, so the layer is not chosen
            return _serial
    return _no_lock if _Process.concurrent else _serial
