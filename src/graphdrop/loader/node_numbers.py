"""`NodeNumbers`: the numbers of a batch's nodes, in the order in which its edges name them."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from graphdrop.loader import loops

MOST_PARTS, MOST_NUMBERS = 8, 1 << 28
"""Threads number nodes side by side, each in an array of its own of one number per node: not more
than so many arrays, and not more than so many numbers."""
EDGES_OF_PART = 1 << 15
"""Fewer edges are not worth a thread of their own."""
LARGEST = int(np.iinfo(np.int32).max)


class NodeNumbers:
    """The number that every node of a graph has in the batch at hand, if it has one.

    Numbers stand in arrays with one entry per node, above a base that rises from batch to batch, so
    that nothing is cleared in between. The first array has the numbers of the whole batch; the
    others are those of further threads, for the edges at hand.

    Args:
        num_nodes: of the graph.
    """

    def __init__(self, num_nodes: int) -> None:
        self._local = np.full((1, num_nodes), -1, dtype=np.int32)
        self._base, self._free = 0, [0, 0]
        """The base of the batch, and from where on no value is taken: first array, others."""

    def begin(self, seeds: NDArray[Any]) -> None:
        """Begin a batch with these nodes."""
        num_nodes = self._local.shape[1]
        parts = max(1, min(numba.get_num_threads(), MOST_PARTS, MOST_NUMBERS // max(1, num_nodes)))
        if len(self._local) < parts:
            self._local, self._free = np.full((parts, num_nodes), -1, dtype=np.int32), [0, 0]
        if self._free[0] + len(seeds) + num_nodes > LARGEST:
            self._local[0], self._free[0] = -1, 0
        self._base = self._free[0]
        self._free[0] += len(seeds)
        self._local[0, seeds] = self._base + np.arange(len(seeds), dtype=np.int32)

    def number(
        self, columns: NDArray[Any], found: NDArray[Any], nodes: NDArray[Any]
    ) -> NDArray[Any]:
        """Number the nodes that edges come from.

        Args:
            columns: out, the number of each edge's source.
            found: the source of each edge.
            nodes: those that have a number.

        Returns:
            The nodes, with the new ones behind them.
        """
        edges, known = len(found), len(nodes)
        parts = min(len(self._local), numba.get_num_threads(), 1 + edges // EDGES_OF_PART)
        bases = self._bases(parts, known, edges)
        listed = np.empty(edges, dtype=found.dtype)
        counts = np.empty(parts, dtype=np.int64)
        loops.number_parts(columns, listed, counts, known, found, self._local, bases)
        if parts == 1:
            nodes = grown(nodes, counts[0])
            nodes[known:] = listed[: counts[0]]
        else:
            numbers = np.empty(edges, dtype=np.int32)
            firsts = np.empty(parts * loops.RUNS, dtype=np.int64)
            loops.find_twins(numbers, firsts, listed, counts, self._local, bases)
            offsets = np.cumsum(firsts)
            nodes = grown(nodes, offsets[-1])
            offsets -= firsts
            arrays = (listed, counts, known, self._local, bases)
            loops.number_firsts(nodes[known:], numbers, offsets, *arrays)
            if parts > 2:  # the second has its twins in the first
                loops.number_twins(numbers, counts)
            loops.renumber(columns, numbers, counts)
        self._free[0] = self._base + len(nodes)
        return nodes

    def _bases(self, parts: int, known: int, edges: int) -> NDArray[Any]:
        """The base of every array, and mark as taken what so many edges may take."""
        if self._free[1] + edges > LARGEST:
            self._local[1:], self._free[1] = -1, 0
        bases = np.full(parts, self._free[1], dtype=np.int64)
        bases[0] = self._base
        self._free = [self._base + known + edges, self._free[1] + edges]
        return bases


def grown(array: NDArray[Any], more: int) -> NDArray[Any]:
    """A longer array that begins with this one."""
    longer = np.empty(len(array) + more, dtype=array.dtype)
    longer[: len(array)] = array
    return longer
