"""One pass over the edges: the arguments of the compiled loops, from the options of a mask."""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphdrop.graph import masks as draws
from graphdrop.graph.masks import Kind, Mask, Sharing
from graphdrop.kernels import loops, multipliers, tiles
from graphdrop.kernels.threads import waiting

if "NUMBA_THREADING_LAYER" not in os.environ:
    # OpenMP starts a parallel loop in microseconds and alternates well with torch's own threads.
    numba.config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]

_logger = logging.getLogger("graphdrop")
NEAR_BYTES = 1 << 21
"""Features of no more bytes than this stay in the caches of a core."""
KINDS = list(Kind)
_NUMBER = {kind: number for number, kind in enumerate(KINDS)}
MAX_EXPONENT = 709.0  # of a float64
_ONE, _ZERO = np.float32(1.0), np.float32(0.0)
_KEEP = multipliers.Constant(_ONE)
_serial, _no_lock = threading.RLock(), nullcontext()


Options = Tensor | tuple[int, ...]
"""Kind, source sharing, blocks, symmetric, self-loops masked, antithetic."""


def options_of(mask: Mask, features: int) -> tuple[int, ...]:
    """The options of a mask over so many features."""
    return (
        _NUMBER[mask.kind],
        mask.sharing is Sharing.SOURCE,
        0 if mask.kind is Kind.NONE else mask.draws_per_edge(features),
        mask.symmetric,
        mask.self_loops,
        mask.antithetic,
    )


class _Process:
    """The state of this process; after a fork the threads of the parent do not exist."""

    started = False
    child = False
    forked = False
    announced = False
    concurrent = False


def _after_fork() -> None:
    _Process.child = True
    _Process.forked = _Process.started


os.register_at_fork(after_in_child=_after_fork)


def array(tensor: Tensor) -> NDArray[Any]:
    """A tensor as the array that the loops read, copied only if necessary."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    return tensor.numpy() if tensor.is_contiguous() else tensor.contiguous().numpy()


class Pass:
    """The shared part of passes over one graph with masks of one form.

    ``arrays`` are those of one direction: ``Graph``'s, or the transposed ones.
    """

    def __init__(
        self,
        arrays: Sequence[NDArray[Any]],
        options: tuple[int, ...],
        features: int,
        transposed: bool = False,
    ) -> None:
        kind, source, blocks, symmetric, self_loops, antithetic = options
        self.arrays = tuple(arrays)
        self.rows = arrays[1].shape[0] - 1
        self.kind, self.antithetic = KINDS[kind], bool(antithetic)
        self.flags = (
            transposed * loops.TRANSPOSED
            | symmetric * loops.SYMMETRIC
            | source * loops.SOURCE
            | (not self_loops) * loops.KEEP_LOOPS
        )
        drawn = 1 if self.kind in (Kind.NONE, Kind.MEAN) else blocks
        self.tiles = [
            (vectors, _channel(features, drawn, start, len(vectors) * tiles.LANES), start, tail)
            for vectors, start, tail in _tiling(features)
        ]

    def rule(self, keep_logit: Tensor, temperature: float, signed: bool = False) -> Any:
        """How a draw becomes a multiplier."""
        if self.kind is Kind.NONE:
            return _KEEP
        per_edge = keep_logit.dim() == 1
        if self.kind is Kind.MEAN:
            keep = torch.sigmoid(keep_logit.detach()).to(torch.float32).numpy()
            return multipliers.ConstantPerEdge(keep) if per_edge else multipliers.Constant(keep[()])
        if self.kind is Kind.HARD:
            if per_edge:
                threshold = draws.drop_threshold(keep_logit).numpy()
                return multipliers.HardPerEdge(*self._mirrored(threshold))
            return multipliers.Hard(*self._mirrored(draws.drop_threshold_of(float(keep_logit))))
        if per_edge:
            odds = torch.exp(-keep_logit.detach().to(torch.float64) / temperature)
            whole = draws.reads_all_bits(keep_logit, temperature).numpy()
            table = _factors_per_edge(temperature, self.antithetic, bool(whole.any()))
            return multipliers.ConcretePerEdge(table, odds.float().numpy(), whole.view(np.uint8))
        table = _table(float(keep_logit), temperature, self.antithetic, signed)
        return multipliers.Concrete(table, _shift(table))

    def rule_of_samples(self, masks: Sequence[Mask]) -> Any:
        """The rules of several masks with one logit each, to be read by the sample's number."""
        if self.kind is Kind.HARD:
            thresholds = [draws.drop_threshold_of(float(mask.keep_logit)) for mask in masks]
            return multipliers.HardPerEdge(*self._mirrored(np.array(thresholds, dtype=np.int32)))
        return self.rule_of_tables([self._table(mask) for mask in masks])

    def rule_of_table(self, mask: Mask) -> Any:
        """The rule of a mask that has a table."""
        table = self._table(mask)
        return multipliers.Concrete(table, _shift(table))

    def _table(self, mask: Mask) -> NDArray[np.float32]:
        if mask.table is not None:
            return self.written(mask.table.multiplier)
        return _table(float(mask.keep_logit), mask.temperature, self.antithetic, signed=False)

    def written(self, entries: Tensor) -> NDArray[np.float32]:
        """The entries of a ``draws.Table`` in the order in which this pass reads them."""
        table = entries.to(torch.float32).numpy()
        return np.ascontiguousarray(table[::-1]) if self.antithetic else table

    @staticmethod
    def rule_of_tables(tables: Sequence[NDArray[np.float32]]) -> Any:
        """Multiply by the entries of several tables, to be read by the sample's number."""
        size = max(map(len, tables))  # a table of the top bits serves as one of all bits
        tables = [table.repeat(size // len(table)) for table in tables]
        return multipliers.ConcretePerSample(np.concatenate(tables), _shift(tables[0]))

    def _mirrored(self, threshold: Any) -> tuple[Any, np.float32, np.float32]:
        """The threshold, and the multipliers above and below it."""
        if self.antithetic:  # k -> 65535 - k: the draws below the mirrored threshold are kept
            return (1 << draws.DRAW_BITS) - threshold, _ZERO, _ONE
        return threshold, _ONE, _ZERO

    def run(
        self, loop: Any, keys: Sequence[Any], rule: Any, x: Tensor, out: Tensor, *more: Any
    ) -> None:
        """Run a loop over every tile of features; ``keys`` is the mask's key, or several."""
        x_array, out_array = array(x), out.numpy()
        flags = self.flags | (loops.FAR if x_array.nbytes > NEAR_BYTES else 0)
        enter()
        with one_at_a_time():
            for vectors, channel, start, tail in self.tiles:
                loop(
                    vectors, channel, rule, *self.arrays, *keys, flags,
                    x_array, out_array, start, tail, *more,
                )  # fmt: skip


def _shift(table: NDArray[np.float32]) -> int:
    """The number of low bits of a draw that a table does not read."""
    return draws.DRAW_BITS - (len(table).bit_length() - 1)


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
    whole = draws.widest_logit(temperature) < abs(keep_logit) < math.inf
    factors = _concrete_factors(temperature, draws.DRAW_BITS if whole else draws.TABLE_BITS)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = odds * (factors[::-1] if antithetic else factors)
        kept = 1.0 / (1.0 + ratio)
        entries = np.where(ratio < 1.0, -ratio * kept, kept) if signed else kept
    return entries.astype(np.float32)


@lru_cache(maxsize=16)
def _factors_per_edge(temperature: float, antithetic: bool, whole: bool) -> NDArray[np.float32]:
    """The factors of the top bits of a draw and, if they are read, those of all its bits."""
    tables = [_concrete_factors(temperature, draws.TABLE_BITS)]
    if whole:
        tables.append(_concrete_factors(temperature, draws.DRAW_BITS))
    return np.concatenate(
        [table[::-1] if antithetic else table for table in tables],
        dtype=np.float32,
        casting="same_kind",
    )


@lru_cache(maxsize=16)
def _concrete_factors(temperature: float, bits: int) -> NDArray[np.float64]:
    """``((1 - u) / u)^(1/t)`` for every uniform that so many bits distinguish."""
    logits = draws.concrete_logits(torch.float64, bits=bits).numpy()
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
    block = draws.block_of_feature(features, blocks)
    padded = torch.nn.functional.pad(block, (0, -features % tiles.LANES), value=blocks - 1)
    vectors = padded[start : start + width].view(-1, tiles.LANES)
    if blocks <= tiles.LANES and bool((vectors == vectors[:, :1]).all()):
        found, sizes = np.unique(vectors[:, 0].numpy(), return_counts=True)
        if (sizes == sizes[0]).all():
            return multipliers.EVEN_BLOCKS[len(found)](int(found[0]))
    counter = padded // 32 * 16 + padded % 16
    shift = padded // 16 % 2 * draws.DRAW_BITS
    return multipliers.Lanes(counter.to(torch.int32).numpy(), shift.to(torch.int32).numpy())


def one_at_a_time() -> AbstractContextManager[Any]:
    """A lock, if the threading layer does not support concurrent calls (workqueue does not)."""
    if not _Process.concurrent:
        try:
            _Process.concurrent = numba.threading_layer() != "workqueue"
        except ValueError:  # no parallel loop has run yet, so the layer is not chosen
            return _serial
    return _no_lock if _Process.concurrent else _serial


def enter() -> None:
    """Use torch's number of threads; log once if kernels must be compiled first."""
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
