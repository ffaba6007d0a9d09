"""`cluster_nodes`: the nodes of a graph in groups with few edges between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from graphdrop.loading.whole import WholeGraph

ROUNDS = 10
"""Rounds of label propagation."""
SLACK = 1.1
"""No cluster of label propagation grows beyond this multiple of the mean size."""


def cluster_nodes(
    whole: WholeGraph, num_parts: int, method: str = "auto", seed: int = 0
) -> NDArray[Any]:
    """The number of the cluster of each node.

    Args:
        whole: the graph; the direction of its edges does not count.
        num_parts: the number of clusters.
        method: "metis" (the package `pymetis`), "label-propagation", or "auto" for the first of the
            two that is installed.
        seed: of label propagation.
    """
    if not 1 <= num_parts <= max(1, whole.num_nodes):
        raise ValueError(
            f"num_parts is {num_parts}; it takes a number from 1 to that of nodes, "
            f"{whole.num_nodes}."
        )
    if method not in ("auto", "metis", "label-propagation"):
        raise ValueError(f'method is {method!r}; it takes "auto", "metis" or "label-propagation".')
    if num_parts == 1:
        return np.zeros(whole.num_nodes, dtype=np.int64)
    partition = None if method == "label-propagation" else _metis(needed=method == "metis")
    neighbors = _undirected(whole)
    if partition is None:
        return _label_propagation(neighbors, num_parts, seed)
    return np.asarray(partition(num_parts, neighbors), dtype=np.int64)


def _metis(*, needed: bool) -> Callable[[int, csr_array], list[int]] | None:
    try:
        import pymetis  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        if needed:
            raise ValueError(
                'method is "metis" and pymetis is not installed: run `pip install pymetis`, or '
                'take "label-propagation"'
            ) from error
        return None

    def partition(parts: int, neighbors: csr_array) -> list[int]:
        adjacency = pymetis.CSRAdjacency(neighbors.indptr, neighbors.indices)
        _, found = pymetis.part_graph(parts, adjacency=adjacency)
        return list(found)

    return partition


def _undirected(whole: WholeGraph) -> csr_array:
    """The neighbours of every node, each once, without itself."""
    size = (whole.num_nodes, whole.num_nodes)
    ones = np.ones(whole.num_edges, dtype=np.int8)
    matrix = csr_array((ones, whole.source, whole.indptr), shape=size)
    matrix = csr_array(matrix + matrix.T)
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    matrix.sum_duplicates()
    return matrix


def _label_propagation(neighbors: csr_array, parts: int, seed: int) -> NDArray[Any]:
    """Nodes move to the cluster of most of their neighbours, while it has room.

    All nodes look at once; of those that want into one cluster the ones with most neighbours there
    go first.
    """
    nodes = neighbors.shape[0]
    generator = np.random.default_rng(seed)
    cluster = generator.permutation(np.arange(nodes) % parts)
    room = int(np.ceil(SLACK * nodes / parts))
    rows = np.repeat(np.arange(nodes), np.diff(neighbors.indptr))
    for _ in range(ROUNDS):
        pair = rows * parts + cluster[neighbors.indices]
        found, votes = np.unique(pair, return_counts=True)
        node, wanted = found // parts, found % parts
        best = np.lexsort((generator.random(len(votes)), votes, node))
        last = np.append(node[best][1:] != node[best][:-1], True) if len(best) else best
        best = best[last.astype(bool)]
        best = best[wanted[best] != cluster[node[best]]]
        # half of them stay, or two neighbours would change places for ever
        best = best[generator.random(len(best)) < 0.5]
        best = best[np.lexsort((-votes[best], wanted[best]))]
        size = np.bincount(cluster, minlength=parts)
        place = np.arange(len(best)) - np.searchsorted(wanted[best], wanted[best])
        moves = best[place < (room - size)[wanted[best]]]
        if not len(moves):
            break
        cluster[node[moves]] = wanted[moves]
    return cluster
