"""`NeighborLoader`: mini-batches of nodes with their sampled neighbourhoods."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.loading.batch import BatchGraph
from graphdrop.loading.filtering import fill_batch, node_numbers, with_sparse_rows
from graphdrop.loading.sampling import NeighborSampler, SampledEdges, random_order
from graphdrop.loading.whole import WholeGraph


class NeighborLoader:
    """Loads mini-batches: seed nodes, and the neighbourhoods that are sampled around them.

    Names and order of the arguments are those of PyG's `NeighborLoader`. A batch is a PyG `Data`
    with the features, labels and masks of its nodes, `edge_index` in local numbers, the ids `n_id`
    and `e_id` of its nodes and edges in the whole graph, `batch_size`, `input_id`,
    `num_sampled_nodes` and `num_sampled_edges`: the seeds are its first `batch_size` nodes. Beyond
    that, `batch.graph` has what layers need to draw masks and weigh edges as in the whole graph.

    Samples depend on the seed, the epoch and the ids of nodes, and not on the number of threads. A
    node's own self-loops are always taken, beside its fan-out.

    Args:
        data: a PyG `Data` with an `edge_index`; its `edge_weight` is passed on.
        num_neighbors: how many edges into a node are sampled, hop by hop; -1 for all.
        input_nodes: the seeds, by number or as a bool mask; all nodes by default.
        replace: whether an edge may be drawn several times; it is then in `edge_index` as often,
            and has one mask.
        sampler: "neighbor" draws for every node by itself; "labor" draws one number for every
            source that all nodes of a hop share, so that batches have fewer distinct nodes. Its
            fan-out is the expected number of edges.
        importance: give batches the attribute `importance`, the factor by which an edge counts for
            those that were left out; the sampled sum over neighbours is then unbiased. Without it
            layers take the mean over what was sampled, which is biased, with a smaller variance.
        batch_size: the number of seeds of a batch.
        shuffle: whether every epoch has the seeds in another order.
        drop_last: whether an incomplete last batch is left out.
        seed: seed of the order and of the samples.
        whole: the graph, if it has been prepared already.

    Example:
        >>> from graphdrop import load_dataset
        >>> data = load_dataset("synthetic").data
        >>> loader = NeighborLoader(data, [5, 3], data.train_mask, batch_size=16)
        >>> batch = next(iter(loader))
        >>> batch.batch_size, torch.equal(batch.x, data.x[batch.n_id])
        (16, True)
    """

    def __init__(
        self,
        data: Data,
        num_neighbors: Sequence[int],
        input_nodes: Tensor | None = None,
        replace: bool = False,
        *,
        sampler: Literal["neighbor", "labor"] = "neighbor",
        importance: bool = False,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        whole: WholeGraph | None = None,
    ) -> None:
        _check(num_neighbors, sampler, batch_size, replace)
        self.data = with_sparse_rows(data)
        self.whole = WholeGraph.from_data(data) if whole is None else whole
        self.seeds = node_numbers(input_nodes, self.whole.num_nodes)
        self.batch_size, self.shuffle, self.drop_last = batch_size, shuffle, drop_last
        self.seed, self.importance = seed, importance
        self.epoch = 0
        """The number of the next pass over the seeds; each has its own order and samples."""
        self._sampler = NeighborSampler(self.whole, num_neighbors, sampler, replace=replace)

    def __len__(self) -> int:
        """The number of batches."""
        count = len(self.seeds) / self.batch_size
        return math.floor(count) if self.drop_last else math.ceil(count)

    def __iter__(self) -> Iterator[Data]:
        epoch = self.epoch
        self.epoch += 1
        for number in range(len(self)):
            yield self.batch(epoch, number)

    def order(self, epoch: int) -> NDArray[Any]:
        """The order in which an epoch takes the seeds: their places among the input nodes."""
        if not self.shuffle:
            return np.arange(len(self.seeds))
        return random_order(len(self.seeds), self.seed, epoch)

    def batch(self, epoch: int, number: int) -> Data:
        """One batch of an epoch."""
        chosen = self.order(epoch)[number * self.batch_size : (number + 1) * self.batch_size]
        return self.around(chosen, epoch * max(1, len(self)) + number)

    def around(self, chosen: NDArray[Any], step: int) -> Data:
        """The batch of some of the input nodes, sampled by the random numbers of a step."""
        edges = self._sampler.sample(self.seeds[chosen], self.seed, step)
        graph = BatchGraph(
            self.whole,
            torch.from_numpy(edges.nodes),
            edges.indptr,
            edges.columns,
            edges.positions,
            importance=self._importance(edges) if self.importance else None,
            hop_nodes=edges.hop_nodes,
        )
        batch = fill_batch(self.data, graph)
        batch.input_id = torch.from_numpy(chosen)
        batch.batch_size = len(chosen)
        batch.num_sampled_nodes, batch.num_sampled_edges = edges.hop_nodes, edges.hop_edges
        return batch

    def _importance(self, edges: SampledEdges) -> Tensor:
        """How many edges of its row each sampled edge stands for, `[E]`."""
        whole, rows = self.whole, edges.nodes[: len(edges.indptr) - 1]
        others = (whole.indptr[rows + 1] - whole.indptr[rows]).astype(np.float64)
        fan_outs = np.repeat(self._sampler.fan_outs, edges.hop_nodes[:-1])
        count = np.diff(edges.indptr)
        row = np.repeat(np.arange(len(rows)), count)
        loop = whole.source[edges.positions] == rows[row]
        if len(whole.looped):  # always taken, they are neither counted nor weighed
            others -= np.bincount(row[loop], minlength=len(rows))
        sampled = (fan_outs >= 0) & ((fan_outs < others) | (self._sampler.replace & (others > 0)))
        stands_for = np.where(sampled, others / np.maximum(fan_outs, 1), 1.0)
        return torch.from_numpy(np.where(loop, 1.0, stands_for[row]).astype(np.float32))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(seeds={len(self.seeds)}, batch_size={self.batch_size}, "
            f"num_neighbors={self._sampler.fan_outs})"
        )


def _check(num_neighbors: Sequence[int], sampler: str, batch_size: int, replace: bool) -> None:
    if not num_neighbors or any(count < -1 or count == 0 for count in num_neighbors):
        raise ValueError(
            f"num_neighbors is {list(num_neighbors)}; it takes a number per layer, each -1 for all "
            "or at least 1."
        )
    if sampler not in ("neighbor", "labor"):
        raise ValueError(f'sampler is {sampler!r}; it takes "neighbor" or "labor".')
    if sampler == "labor" and replace:
        raise ValueError(
            'replace is True; with sampler="labor" it takes False, since a source is in or out.'
        )
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}; it takes a number of at least 1.")
