"""``draw_sums``: exact sums over the distinct draws that a masked pass reads.

Gradient estimators such as ARM need them. A draw that several edges share counts once; draws that
no edge reads do not count.
"""

# ruff: noqa: PLR0917 - a compiled loop takes its arrays one by one

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import prange
from torch import Tensor

from graphdrop.graph import Graph, Normalization
from graphdrop.graph.masks import DRAW_BITS, LARGEST, Kind, Mask, Sharing, drop_threshold
from graphdrop.io.devices import to_float64
from graphdrop.kernels import loops, passes
from graphdrop.kernels.aggregate import Backend, check_entries
from graphdrop.kernels.loops import compiled, draw_value, edge_bits
from graphdrop.kernels.reference import MESSAGE_BYTES, draw_values

CHUNKS = 64
"""Runs of edges, which threads count one after another."""


@dataclass(frozen=True, eq=False)
class DrawSums:
    """Sums over distinct draws ``k``, int64: scalars, or one entry per edge of the
    whole graph for local rates.

    They belong to the pass that is not antithetic, also for an antithetic mask.
    """

    count: Tensor
    """The number of draws."""
    total: Tensor
    """The sum of the 16-bit draws ``k``."""
    kept: Tensor
    """The number of draws that keep their connection, ``k >= threshold``."""
    kept_opposite: Tensor
    """The number that keep it in the antithetic pass, ``65535 - k >= threshold``."""
    threshold: Tensor
    """How many of the 65536 values of ``k`` drop a connection."""

    @property
    def centred(self) -> Tensor:
        """The sum of ``u - 1/2`` with ``u = (k + 1/2) / 2**16``, in float64."""
        return to_float64(2 * self.total - LARGEST * self.count) * 2.0 ** -(DRAW_BITS + 1)

    @property
    def keep(self) -> Tensor:
        """The keep probability that 16-bit draws represent, in float64."""
        return to_float64(1 + LARGEST - self.threshold) * 2.0**-DRAW_BITS


def draw_sums(
    graph: Graph, mask: Mask, features: int, *, backend: Backend | str = Backend.AUTO
) -> DrawSums:
    """Sum over the distinct draws that ``aggregate(graph, x, mask)`` reads.

    Args:
        graph: the edges of the pass.
        mask: its mask, hard or concrete.
        features: number of features of ``x``.
        backend: ``reference`` for plain torch, which computes it on every device but the CPU.
    """
    _check(graph, mask)
    count = mask.draws_per_edge(features)
    threshold = drop_threshold(mask.keep_logit).to(graph.indices.device)
    if mask.before_normalization:
        graph, mask = _read_for_degrees(graph, mask)
    read = _read(graph, mask)
    fused = Backend(backend) is not Backend.REFERENCE and read.source.is_cpu
    compute = _fused if fused else _reference
    if threshold.dim() == 0:
        sums = compute(graph, mask, features, read, threshold)
        counted = torch.tensor(count * len(read.source)).to(threshold.device)
    else:
        edges = read.edges if graph.parent_edge is None else graph.parent_edge[read.edges]
        sums = torch.zeros(3, len(threshold), dtype=torch.int64, device=threshold.device)
        sums[:, edges] = compute(graph, mask, features, read, threshold[edges])
        counted = torch.zeros_like(sums[0])
        counted[edges] = count
    total, kept, kept_opposite = sums
    return DrawSums(counted, total, kept, kept_opposite, threshold.long())


def _check(graph: Graph, mask: Mask) -> None:
    if mask.kind not in (Kind.HARD, Kind.CONCRETE):
        raise ValueError(f"mask has kind {mask.kind.value!r}; it takes a hard or concrete mask.")
    if mask.keep_logit.dim() == 0:
        return
    if mask.symmetric or mask.sharing is Sharing.SOURCE:
        shared = "both directions of an edge" if mask.symmetric else "all edges of a source"
        raise ValueError(
            f"keep_logit has one entry per edge, but {shared} share a draw: with two thresholds "
            "on one draw no estimator holds; use one rate for all edges, or a mask that draws for "
            "every edge (sharing='edge', symmetric=False)"
        )
    check_entries(graph, mask)


def _read_for_degrees(graph: Graph, mask: Mask) -> tuple[Graph, Mask]:
    """The edges that a mask before normalization reads: whole rows, no self-loops."""
    mask = replace(mask, self_loops=False, before_normalization=False)
    if graph.parent is None or graph.normalization is Normalization.NONE:
        return graph, mask
    if graph.normalization is Normalization.ROW:
        return graph.complete_rows, mask
    return graph.derived("rows of all ends", lambda: _rows_of_all_ends(graph)), mask


def _rows_of_all_ends(part: Graph) -> Graph:
    """All edges into the rows of a part and into its columns."""
    whole, rows, columns = part.parent, part.dst_ids, part.src_ids
    assert whole is not None and rows is not None and columns is not None  # noqa: PT018, S101
    wanted = torch.zeros(whole.num_dst, dtype=torch.bool, device=rows.device)
    wanted[rows] = wanted[columns] = True
    return whole.rows(wanted)


class _Read(NamedTuple):
    """One edge for every distinct draw, or for every group of them: one for each block."""

    edges: Tensor | slice
    """Their numbers."""
    destination: Tensor
    source: Tensor
    rank: Tensor | None


def _read(graph: Graph, mask: Mask) -> _Read:
    def make() -> _Read:
        distinct = distinct_edges(graph, mask)
        # of all edges a view, not a copy
        edges = distinct if len(distinct) < graph.num_edges else slice(None)
        rank = None if graph.rank is None else graph.rank[edges]
        return _Read(edges, graph.draw_dst[edges], graph.draw_src[edges], rank)

    key = ("distinct draws", mask.sharing, mask.symmetric, mask.self_loops)
    return graph.derived_from_structure(key, make)


def distinct_edges(graph: Graph, mask: Mask) -> Tensor:
    """The numbers of edges that together read every draw of the mask exactly once."""
    masked = torch.ones_like(graph.self_loop) if mask.self_loops else ~graph.self_loop
    if mask.sharing is Sharing.SOURCE:
        edges = graph.t_edge.long()
        edges = edges[masked[edges]]  # by source
        sources = graph.indices[edges]
        return edges[torch.diff(sources, prepend=sources.new_full((1,), -1)) != 0]
    if mask.symmetric:
        number = torch.arange(graph.num_edges, device=graph.reverse.device)
        masked = masked & ((graph.reverse < 0) | (number <= graph.reverse))
    return masked.nonzero().flatten()


def _reference(graph: Graph, mask: Mask, features: int, read: _Read, threshold: Tensor) -> Tensor:
    """Total, kept and kept opposite, ``[3]`` or ``[3, edges]``, in plain torch."""
    mask = replace(mask, antithetic=False)
    edges = torch.arange(graph.num_edges, device=graph.indices.device)[read.edges]
    # the handful of 64-bit words that make one draw
    run = max(1, MESSAGE_BYTES // (8 * 8 * max(features, 1)))
    parts = []
    for first in range(0, max(len(edges), 1), run):
        values = draw_values(graph, mask, features, edges[first : first + run])
        limit = threshold[first : first + run, None] if threshold.dim() else threshold
        kept, opposite = values >= limit, LARGEST - values >= limit
        part = torch.stack([each.sum(1) for each in (values, kept, opposite)])
        parts.append(part if threshold.dim() else part.sum(1, keepdim=True))
    sums = torch.cat(parts, 1)
    return sums if threshold.dim() else sums.sum(1)


def _fused(_graph: Graph, mask: Mask, features: int, read: _Read, threshold: Tensor) -> Tensor:
    """The same by the fused loop, without storing draws."""
    count = mask.draws_per_edge(features)
    per_edge = threshold.dim() == 1
    sums = np.zeros((CHUNKS, 3), dtype=np.int64)
    each = np.zeros((len(read.destination) if per_edge else 0, 3), dtype=np.int64)
    with passes.enter_loops():
        _count_draws(
            read.destination.numpy(),
            read.source.numpy(),
            np.empty(0, dtype=np.int32) if read.rank is None else read.rank.numpy(),
            np.atleast_1d(threshold.numpy()),
            count,
            *mask.key.tolist(),
            mask.symmetric * loops.SYMMETRIC | (mask.sharing is Sharing.SOURCE) * loops.SOURCE,
            sums,
            each,
        )
    return torch.from_numpy(each.T if per_edge else sums.sum(0))


@compiled
def _count_draws(
    destinations: Any,
    sources: Any,
    ranks: Any,
    thresholds: Any,
    draws: Any,
    key0: Any,
    key1: Any,
    flags: Any,
    sums: Any,
    each: Any,
) -> None:
    """``sums[chunk]`` and, unless it is empty, ``each[edge]``: total, kept and kept opposite.

    Draws are not stored. Sums are of integers, hence exact.
    """
    ranked, apart = ranks.size > 0, each.size > 0
    edges = destinations.size
    for chunk in prange(CHUNKS):
        for edge in range(chunk * edges // CHUNKS, (chunk + 1) * edges // CHUNKS):
            destination, source = np.int64(destinations[edge]), np.int64(sources[edge])
            rank = np.int64(ranks[edge]) if ranked else np.int64(0)
            bits = edge_bits(destination, source, rank, key0, key1, flags)
            threshold = thresholds[edge] if apart else thresholds[0]
            total, kept, opposite = np.int64(0), np.int64(0), np.int64(0)
            for number in range(draws):
                value = draw_value(bits, number)
                total += value
                kept += value >= threshold
                opposite += LARGEST - value >= threshold
            sums[chunk, 0] += total
            sums[chunk, 1] += kept
            sums[chunk, 2] += opposite
            if apart:
                each[edge, 0], each[edge, 1], each[edge, 2] = total, kept, opposite
