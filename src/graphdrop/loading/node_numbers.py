"""`NodeNumbers`: the numbers of a batch's nodes, in the order in which its edges name them."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from graphdrop.loading import loops

MOST_PARTS, MOST_NUMBERS = 8, 1 << 28
"""Threads number nodes side by side, each in an array of its own of one number per node: not more
than so many arrays, and not more than so many numbers."""
LARGEST = int(np.iinfo(np.int32).max)


class NodeNumbers:
    """The number that every node of a graph has in the batch at hand, if it has one.

    Numbers stand in arrays with one entry per node, one array for each thread. They stand above a
    base that rises from batch to batch, so that nothing is cleared in between.

    Args:
        num_nodes: of the graph.
    """

    def __init__(self, num_nodes: int) -> None:
        self._local = np.full((1, num_nodes), -1, dtype=np.int32)
        self._parts, self._base, self._free = 1, 0, 0
        """How many arrays the batch has, its base, and from where on no value is taken."""

    def begin(self, seeds: NDArray[Any]) -> None:
        """Begin a batch with these nodes."""
        num_nodes = self._local.shape[1]
        room = MOST_NUMBERS // max(1, num_nodes)
        self._parts = max(1, min(numba.get_num_threads(), MOST_PARTS, room))
        full = self._free + len(seeds) + num_nodes > LARGEST
        if full or len(self._local) < self._parts:
            parts = max(self._parts, len(self._local))
            self._local, self._free = np.full((parts, num_nodes), -1, dtype=np.int32), 0
        self._base = self._free
        self._free += len(seeds)
        self._local[: self._parts, seeds] = self._base + np.arange(len(seeds), dtype=np.int32)

    def number(
        self, columns: NDArray[Any], found: NDArray[Any], nodes: NDArray[Any], *, last: bool
    ) -> NDArray[Any]:
        """Number the nodes that edges come from.

        Args:
            columns: out, the number of each edge's source.
            found: the source of each edge.
            nodes: those that have a number.
            last: whether no more edges of this batch will be numbered.

        Returns:
            The nodes, with the new ones behind them.
        """
        parts, edges, known = self._parts, len(found), len(nodes)
        local, base = self._local[:parts], self._base
        self._free = base + known + edges  # at most, in case that this is interrupted
        listed = np.empty(edges, dtype=found.dtype)
        counts = np.empty(parts, dtype=np.int64)
        loops.number_parts(columns, listed, counts, known, found, local, base)
        if parts == 1:
            nodes = grow(nodes, counts[0])
            nodes[known:] = listed[: counts[0]]
        else:
            numbers, twins = np.empty(edges, dtype=np.int32), np.empty(edges, dtype=np.int64)
            firsts = np.empty((parts - 1) * loops.RUNS, dtype=np.int64)
            loops.find_twins(twins, numbers, firsts, listed, counts, known, local, base)
            offsets = counts[0] + np.cumsum(firsts)
            nodes = grow(nodes, offsets[-1])
            new = nodes[known:]
            new[: counts[0]] = listed[: counts[0]]
            loops.number_firsts(new, numbers, offsets - firsts, twins, listed, counts, known)
            if parts > 2:  # the twins of the second are in the first
                loops.number_twins(numbers, twins, counts)
            loops.renumber(columns, numbers, counts, known)
            if not last:
                loops.remember(local, new, base + known)
        self._free = base + len(nodes)
        return nodes


def grow(array: NDArray[Any], more: int) -> NDArray[Any]:
    """A longer array that begins with this one."""
    longer = np.empty(len(array) + more, dtype=array.dtype)
    longer[: len(array)] = array
    return longer
