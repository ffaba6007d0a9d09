"""Neighbour sampling in vectorized numpy, hop by hop: the peer of ``graphdrop.loading``.

The loops run over the hops and over the fan-out, never over nodes. Floyd's algorithm draws distinct
edges for all rows at once: the k-th choice of every row is compared with its earlier ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def sample(
    indptr: NDArray[Any],
    sources: NDArray[Any],
    seeds: NDArray[Any],
    fan_outs: list[int],
    generator: np.random.Generator,
    local: NDArray[Any],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Nodes, columns and positions of a batch, uniformly and without replacement.

    ``local`` has -1 for every node, and has it again afterwards.
    """
    nodes, columns, positions = [seeds], [], []
    local[seeds] = np.arange(len(seeds))
    known, rows = len(seeds), seeds
    for fan_out in fan_outs:
        taken = _edges(indptr, rows, fan_out, generator)
        found = sources[taken]
        new = found[local[found] < 0]
        new, first = np.unique(new, return_index=True)
        new = new[np.argsort(first)]  # in the order in which edges name them
        local[new] = known + np.arange(len(new))
        known += len(new)
        nodes.append(new)
        columns.append(local[found])
        positions.append(taken)
        rows = new
    every = np.concatenate(nodes)
    local[every] = -1
    return every, np.concatenate(columns), np.concatenate(positions)


def _edges(
    indptr: NDArray[Any], rows: NDArray[Any], fan_out: int, generator: np.random.Generator
) -> NDArray[Any]:
    begin, degree = indptr[rows], indptr[rows + 1] - indptr[rows]
    many = degree > fan_out
    count = np.minimum(degree, fan_out)
    start = np.cumsum(count) - count
    out = np.repeat(begin - start, count) + np.arange(int(count.sum()))  # all, where all are taken
    wide = np.flatnonzero(many)
    chosen = np.empty((len(wide), fan_out), dtype=np.int64)
    for number in range(fan_out):
        last = degree[wide] - fan_out + number
        drawn = (generator.random(len(wide), dtype=np.float32) * (last + 1)).astype(np.int64)
        drawn = np.minimum(drawn, last)
        taken = (chosen[:, :number] == drawn[:, None]).any(1)
        chosen[:, number] = np.where(taken, last, drawn)
    chosen.sort(1)
    place = start[wide][:, None] + np.arange(fan_out)
    out[place.ravel()] = (begin[wide][:, None] + chosen).ravel()
    return out
