"""`sample_neighbors`: the nodes and edges of a batch, hop by hop."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphdrop.graph.masks import MASK64, stream_key
from graphdrop.kernels import passes
from graphdrop.loading import loops
from graphdrop.loading.node_numbers import NodeNumbers, grow
from graphdrop.loading.whole import WholeGraph

SAMPLING_STREAM = 1 << 61
"""The layer number from which on the random numbers of neighbour sampling begin: no mask has it."""
ORDER_STREAM = SAMPLING_STREAM - 1
"""The layer number of the random order of an epoch."""
CHUNKS = 256
"""Runs of rows, or of edges, that threads take one after another."""

Method = Literal["neighbor", "labor"]


def random_order(count: int, seed: int, epoch: int, which: int = 0) -> NDArray[Any]:
    """A random order of so many things, another one in every epoch; `which` of several."""
    key = [word & MASK64 for word in stream_key(seed, epoch, ORDER_STREAM, which).tolist()]
    return np.random.Generator(np.random.Philox(key=key)).permutation(count)


class SampledEdges(NamedTuple):
    """The edges of a batch: a row for each node whose edges were sampled."""

    nodes: NDArray[Any]
    """The ids of all nodes: seeds, then those that each hop found, `[n]` int64."""
    hop_nodes: list[int]
    """How many nodes are new in each hop; the first entry counts the seeds."""
    hop_edges: list[int]
    """How many edges each hop has."""
    indptr: NDArray[Any]
    """Where the edges of each row begin; rows are the nodes of all hops but the last."""
    columns: NDArray[Any]
    """The number in `nodes` of each edge's source."""
    positions: NDArray[Any]
    """The position of each edge in the whole graph."""


class NeighborSampler:
    """Samples neighbourhoods of a graph; every thread keeps one number for every node of it.

    Args:
        whole: the graph.
        fan_outs: how many edges into a node are taken, hop by hop; -1 for all.
        method: "neighbor" draws for every node by itself. "labor" draws one number for every
            source, which all nodes of a hop share: batches have fewer distinct nodes (LABOR-0).
        replace: whether an edge may be drawn several times.
    """

    def __init__(
        self,
        whole: WholeGraph,
        fan_outs: Sequence[int],
        method: Method = "neighbor",
        *,
        replace: bool = False,
    ) -> None:
        self.whole, self.fan_outs = whole, list(fan_outs)
        self.shared, self.replace = method == "labor", replace
        self._numbers = NodeNumbers(whole.num_nodes)
        self._lock = threading.Lock()

    def sample(self, seeds: NDArray[Any], seed: int, step: int) -> SampledEdges:
        """The neighbourhoods of some nodes; equal seeds and steps give equal neighbourhoods.

        What is sampled of a node in a hop depends on its id, the hop, the seed and the step alone.
        """
        with self._lock, passes.enter_loops():
            return self._sample(np.ascontiguousarray(seeds, dtype=np.int64), seed, step)

    def _sample(self, seeds: NDArray[Any], seed: int, step: int) -> SampledEdges:
        self._numbers.begin(seeds)
        nodes, hop_nodes, hop_edges = seeds, [len(seeds)], list[int]()
        degrees, last = [np.zeros(1, dtype=np.int64)], len(self.fan_outs) - 1
        columns, positions = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)
        for hop, fan_out in enumerate(self.fan_outs):
            key = stream_key(seed, step, SAMPLING_STREAM + hop).tolist()
            rows, edges = nodes[len(nodes) - hop_nodes[-1] :], len(positions)
            counts, positions, found = self._rows(positions, rows, fan_out, key)
            columns, known = grow(columns, len(found)), len(nodes)
            nodes = self._numbers.number(columns[edges:], found, nodes, last=hop == last)
            hop_nodes.append(len(nodes) - known)
            hop_edges.append(len(found))
            degrees.append(counts)
        indptr = np.cumsum(np.concatenate(degrees))
        return SampledEdges(nodes, hop_nodes, hop_edges, indptr, columns, positions)

    def _rows(
        self, before: NDArray[Any], rows: NDArray[Any], fan_out: int, key: list[int]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """How many edges each row takes, their positions behind those before, and their sources."""
        whole = self.whole
        counts = np.empty(len(rows), dtype=np.int64)
        how = (whole.looped, fan_out, self.replace, self.shared, *key)
        loops.count_edges(counts, rows, whole.indptr, whole.source, *how)
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(counts, out=offsets[1:])
        share = np.arange(CHUNKS + 1) * offsets[-1] // CHUNKS
        chunks = np.searchsorted(offsets, share)
        chunks[-1] = len(rows)
        positions = grow(before, offsets[-1])
        found = np.empty(offsets[-1], dtype=whole.source.dtype)
        taken = positions[len(before) :]
        arrays = (taken, found, offsets, chunks, rows, whole.indptr, whole.source)
        loops.take_edges(*arrays, *how)
        return counts, positions, found
