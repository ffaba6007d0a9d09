"""`ClusterLoader`: mini-batches of clusters of nodes, with the edges among them (Cluster-GCN)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.loading.batch import BatchGraph
from graphdrop.loading.clusters import cluster_nodes
from graphdrop.loading.filtering import fill_batch, with_sparse_rows
from graphdrop.loading.sampling import random_order
from graphdrop.loading.whole import WholeGraph


class ClusterLoader:
    """Loads mini-batches of several clusters each, with all edges among their nodes.

    A batch is a PyG `Data` as that of `NeighborLoader`, except that all of its nodes are outputs:
    it has no `batch_size`, and its masks say which nodes count. It lacks edges to other clusters.

    Args:
        data: a PyG `Data` with an `edge_index`.
        num_parts: the number of clusters.
        batch_size: the number of clusters of a batch.
        shuffle: whether every epoch puts other clusters together.
        method: "metis", "label-propagation", or "auto" for metis where `pymetis` is installed.
        importance: give batches the attribute `importance`: an edge between two clusters counts for
            the batches in which only one of them is. It needs `shuffle` and a `batch_size` of 2 or
            more. Without it layers take the mean over the neighbours that are in the batch.
        seed: seed of the order.
        whole: the graph, if it has been prepared already.

    Example:
        >>> from graphdrop import load_dataset
        >>> data = load_dataset("synthetic").data
        >>> loader = ClusterLoader(data, num_parts=8, batch_size=2)
        >>> sum(batch.num_nodes for batch in loader) == data.num_nodes
        True
    """

    def __init__(
        self,
        data: Data,
        num_parts: int,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        method: str = "auto",
        importance: bool = False,
        seed: int = 0,
        whole: WholeGraph | None = None,
    ) -> None:
        if not 1 <= batch_size <= num_parts:
            raise ValueError(
                f"batch_size is {batch_size}; it takes a number of clusters from 1 to num_parts, "
                f"{num_parts}."
            )
        if importance and not (shuffle and batch_size > 1) and num_parts > batch_size:
            raise ValueError(
                "importance is True; it takes shuffle=True and a batch_size of at least 2, because "
                "an edge between two clusters has to be in some batch. Change them."
            )
        self.data, self.seed, self.epoch = with_sparse_rows(data), seed, 0
        self.whole = WholeGraph.from_data(data) if whole is None else whole
        self.batch_size, self.shuffle, self.importance = batch_size, shuffle, importance
        self.cluster = cluster_nodes(self.whole, num_parts, method, seed)
        """The number of the cluster of each node."""
        order = np.argsort(self.cluster, kind="stable")
        ends = np.cumsum(np.bincount(self.cluster, minlength=num_parts))
        self._members = np.split(order, ends[:-1])
        self._local = np.full(self.whole.num_nodes, -1, dtype=np.int64)

    def __len__(self) -> int:
        """The number of batches."""
        return math.ceil(len(self._members) / self.batch_size)

    def __iter__(self) -> Iterator[Data]:
        epoch = self.epoch
        self.epoch += 1
        for number in range(len(self)):
            yield self.batch(epoch, number)

    def batch(self, epoch: int, number: int) -> Data:
        """One batch of an epoch."""
        order = np.arange(len(self._members))
        if self.shuffle:
            order = random_order(len(order), self.seed, epoch)
        chosen = order[number * self.batch_size : (number + 1) * self.batch_size]
        return self.among(np.concatenate([self._members[one] for one in chosen]), len(chosen))

    def among(self, nodes: NDArray[Any], clusters: int) -> Data:
        """The batch of some nodes, which are those of so many clusters."""
        whole, local = self.whole, self._local
        local[nodes] = np.arange(len(nodes))
        first, count = whole.indptr[nodes], whole.indptr[nodes + 1] - whole.indptr[nodes]
        start = np.cumsum(count) - count
        positions = np.repeat(first - start, count) + np.arange(int(count.sum()))
        rows = np.repeat(np.arange(len(nodes)), count)
        column = local[whole.source[positions]]
        inside = column >= 0
        local[nodes] = -1
        rows, column, positions = rows[inside], column[inside], positions[inside]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(nodes)))])
        importance = None
        if self.importance:
            importance = self._importance(nodes[rows], nodes[column], clusters)
        graph = BatchGraph(
            whole,
            torch.from_numpy(nodes),
            indptr,
            column.astype(np.int32),
            positions,
            importance=importance,
        )
        return fill_batch(self.data, graph)

    def _importance(self, one: NDArray[Any], other: NDArray[Any], clusters: int) -> Tensor:
        """One over the chance that the other end's cluster is in a batch of so many clusters."""
        between = self.cluster[one] != self.cluster[other]
        factor = (len(self._members) - 1) / max(1, clusters - 1)
        return torch.from_numpy(np.where(between, factor, 1.0).astype(np.float32))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_parts={len(self._members)}, batch_size={self.batch_size})"
        )
