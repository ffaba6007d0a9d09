"""One pass over the edges: a mask's options turned into what the compiled loops take."""

# ruff: noqa: PLR0917 - the same tensors, one by one, as the op takes them

from __future__ import annotations

import logging
import math
import os
import threading
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphdrop import draws
from graphdrop.draws import Kind
from graphdrop.kernels import channels, loops, tiles

if "NUMBA_THREADING_LAYER" not in os.environ:
    # OpenMP starts a parallel loop in microseconds and alternates well with torch's own threads.
    numba.config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]

_logger = logging.getLogger("graphdrop")
NEAR_BYTES = 1 << 21
"""Features of no more bytes than this stay in the caches of a core."""
KINDS = list(Kind)
MAX_EXPONENT = 709.0  # of a float64
_serial = threading.RLock()


Options = Tensor | tuple[int, ...]
"""Kind, source sharing, blocks, symmetric, self-loops masked, antithetic."""


class _Process:
    """What this process has done so far; a fork inherits threads that are not there."""

    started = False
    child = False
    forked = False
    announced = False


def _after_fork() -> None:
    _Process.child = True
    _Process.forked = _Process.started


os.register_at_fork(after_in_child=_after_fork)


def array(tensor: Tensor) -> NDArray[Any]:
    """The numbers of a tensor as the loops take them, copied only if they must be."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    return tensor.numpy() if tensor.is_contiguous() else tensor.contiguous().numpy()


class Pass:
    """One pass over the edges: the mask's options turned into what the loops take."""

    def __init__(
        self,
        arrays: list[NDArray[Any]],
        keep_logit: Tensor,
        key: Tensor,
        options: Options,
        temperature: Tensor | float,
        transposed: bool = False,
    ) -> None:
        chosen = options if isinstance(options, tuple) else options.tolist()
        kind, source, blocks, symmetric, self_loops, antithetic = chosen
        self.blocks, self.antithetic = int(blocks), bool(antithetic)
        self.kind = KINDS[kind]
        self.arrays = arrays
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
            return channels.Constant(np.float32(1.0))
        if self.kind is Kind.MEAN:
            keep = torch.sigmoid(self.keep_logit).to(torch.float32).numpy()
            return channels.ConstantPerEdge(keep) if per_edge else channels.Constant(keep[()])
        if self.kind is Kind.HARD:
            threshold = draws.drop_threshold(self.keep_logit).numpy()
            above, below = np.float32(1.0), np.float32(0.0)
            if self.antithetic:  # k -> 65535 - k: the draws below the mirrored threshold are kept
                threshold, above, below = (1 << draws.DRAW_BITS) - threshold, below, above
            if per_edge:
                return channels.HardPerEdge(threshold.astype(np.int32), above, below)
            return channels.Hard(int(threshold), above, below)
        # z = 1 / (1 + odds * ((1 - u) / u)^(1/t)); the second factor depends on t alone
        factors = _concrete_factors(self.temperature)
        if per_edge:
            table = factors[::-1] if self.antithetic else factors
            odds = torch.exp(-self.keep_logit.to(torch.float64) / self.temperature)
            return channels.ConcretePerEdge(
                np.ascontiguousarray(table, dtype=np.float32), odds.float().numpy()
            )
        cold = -float(self.keep_logit) / self.temperature
        odds_of_all = math.exp(cold) if cold < MAX_EXPONENT else math.inf
        entries = np.empty(factors.size, dtype=np.float32)
        loops.fill_table(entries, odds_of_all, factors, self.antithetic, signed)
        return channels.Concrete(entries)

    def run(self, loop: Any, x: Tensor, out: Tensor, rule: Any, *more: NDArray[Any]) -> None:
        """Run a loop over every tile of features."""
        features = x.shape[1]
        blocks = 1 if self.kind in (Kind.NONE, Kind.MEAN) else self.blocks
        x_array, out_array = array(x), out.numpy()
        flags = self.flags | (loops.FAR if x_array.nbytes > NEAR_BYTES else 0)
        enter()
        with one_at_a_time():
            for vectors, start, tail in _tiling(features):
                channel = _channel(features, blocks, start, len(vectors) * tiles.LANES)
                loop(
                    vectors, channel, rule, *self.arrays, *self.key, flags,
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
        return channels.Shared(0)
    if blocks == features:
        return channels.Features(0)
    block = draws.block_of_feature(features, blocks)
    padded = torch.nn.functional.pad(block, (0, -features % tiles.LANES), value=blocks - 1)
    vectors = padded.view(-1, tiles.LANES)
    if bool((vectors == vectors[:, :1]).all()):
        of_vector = vectors[:, 0]
        here = of_vector[start // tiles.LANES :][: width // tiles.LANES]
        found, sizes = np.unique(here.numpy(), return_counts=True)
        if (sizes == sizes[0]).all() and blocks <= tiles.LANES:
            return channels.EVEN_BLOCKS[len(found)](int(found[0]))
        if blocks <= channels.MAX_BLOCKS:
            return channels.Blocks(blocks, of_vector.to(torch.int32).numpy())
    counter = padded // 32 * 16 + padded % 16
    shift = padded // 16 % 2 * draws.DRAW_BITS
    return channels.Lanes(counter.to(torch.int32).numpy(), shift.to(torch.int32).numpy())


def one_at_a_time() -> AbstractContextManager[Any]:
    """A lock where the threading layer cannot take two calls at once (only workqueue cannot)."""
    try:
        concurrent = numba.threading_layer() != "workqueue"
    except ValueError:  # no parallel loop has run yet, so the layer is not chosen
        concurrent = False
    return nullcontext() if concurrent else _serial


def enter() -> None:
    """Follow torch's thread count, and say so once when kernels have to be compiled first."""
    if _Process.forked:
        raise RuntimeError(
            "the fused kernel ran in the parent before this process was forked, and its threads "
            "do not survive a fork: start workers with the 'spawn' method, or call "
            "aggregate(..., backend='reference')"
        )
    threads = torch.get_num_threads()
    # a forked process has lost the threads of OpenMP that torch may have started: one needs none
    available = 1 if _Process.child else numba.config.NUMBA_NUM_THREADS
    numba.set_num_threads(min(threads, available))
    if torch.get_num_threads() != threads:
        # the first call starts Numba's OpenMP threads and thereby sets the number for all of
        # OpenMP, torch included
        torch.set_num_threads(threads)
    if not _Process.announced:
        _Process.announced = True
        directory = loops.cache_directory()
        if not directory.is_dir():
            _logger.warning(
                "compiling the kernels for this machine: a few seconds each, once (kept in %s)",
                directory,
            )
    _Process.started = True
