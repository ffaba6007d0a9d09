"""`BatchGraph`: the graph of a mini-batch, with the ids and degrees of the whole graph.

Its layers draw by the ids of nodes in the whole graph, and weigh edges as the whole graph does: a
batch with full neighbourhoods gives its seed nodes the outputs of the full batch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphdrop.graph import Graph, Normalization, sorting
from graphdrop.graph.memo import Memo
from graphdrop.kernels import passes
from graphdrop.loading import loops
from graphdrop.loading.whole import WholeGraph

T = TypeVar("T")


class BatchGraph:
    """The graph of a batch; a loader puts it into a batch as `batch.graph`.

    Args:
        whole: the graph that the batch was taken from.
        n_id: the ids of the batch's nodes, `[n]`: rows with edges first.
        indptr: where the edges of each row begin; the other nodes have none.
        columns: the number of each edge's source among the nodes of the batch.
        positions: the position of each edge in the whole graph. One that is named several times in
            succession was drawn several times: it is one edge with one mask.
        importance: by what each edge is multiplied, `[E]`, so that a sampled sum is unbiased; None
            for the mean over what was sampled: each row is scaled to its sum in the whole graph.
        hop_nodes: how many nodes each hop of the sampler found, the seeds first; None if edges were
            not sampled hop by hop.
        num_outputs: how many of the first nodes have outputs that count; by default the seeds of
            the first hop, or all.
        order: the number in the batch's `edge_index` of each edge here; the same by default.
    """

    def __init__(
        self,
        whole: WholeGraph,
        n_id: Tensor,
        indptr: NDArray[Any],
        columns: NDArray[Any],
        positions: NDArray[Any],
        *,
        importance: Tensor | None = None,
        hop_nodes: Sequence[int] | None = None,
        num_outputs: int | None = None,
        order: NDArray[Any] | None = None,
    ) -> None:
        self.whole, self.n_id = whole, n_id
        self.indptr, self.columns, self.positions = indptr, columns, positions
        self.importance = importance
        self.hop_nodes = None if hop_nodes is None else list(hop_nodes)
        first = len(n_id) if hop_nodes is None else hop_nodes[0]
        self.num_outputs = first if num_outputs is None else num_outputs
        self._order = order
        self._known = Memo()
        self._sent: tuple[torch.device, bool] | None = None

    def to(self, device: torch.device | str, non_blocking: bool = False) -> BatchGraph:
        """The same with parts on a device; what they are made of stays on the CPU.

        PyG's `batch.to(device)` calls it.
        """
        other = copy.copy(self)
        other._known, other._sent = Memo(), (torch.device(device), non_blocking)
        return other

    def derived(self, key: Hashable, make: Callable[[], T]) -> T:
        """The cached result of `make()` under this key."""
        return self._known.get(key, make)

    @property
    def in_given_order(self) -> tuple[Tensor, Tensor, Tensor]:
        """Row, column and position of each edge in the order of the batch's `edge_index`."""

        def make() -> tuple[Tensor, Tensor, Tensor]:
            rows = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
            arrays = (torch.from_numpy(one).long() for one in (rows, self.columns, self.positions))
            row, column, position = arrays
            if self._order is not None:
                back = torch.from_numpy(np.argsort(self._order))
                row, column, position = row[back], column[back], position[back]
            return row, column, position

        return self._known.get("given order", make)

    @property
    def given_importance(self) -> Tensor | None:
        """The importance of each edge in the order of the batch's `edge_index`."""
        if self.importance is None or self._order is None:
            return self.importance
        return self.importance[torch.from_numpy(np.argsort(self._order))]

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return len(self.n_id)

    def parts(self, normalization: Normalization, layers: int) -> list[Graph]:
        """The part of the graph that each layer needs, first layer first."""
        sizes = self._sizes(layers)
        return [self._part(normalization, *size) for size in sizes]

    def square(self, normalization: Normalization) -> Graph:
        """The graph of all nodes of the batch, for layers that do not know of one another."""
        return self._part(normalization, self.num_nodes, self.num_nodes)

    def _sizes(self, layers: int) -> list[tuple[int, int]]:
        """Rows and columns of each layer: the first nodes of the batch, ever fewer of them."""
        if self.hop_nodes is None:
            every = [(self.num_nodes, self.num_nodes)] * (layers - 1)
            return [*every, (self.num_outputs, self.num_nodes)]
        within = np.cumsum(self.hop_nodes).tolist()
        last = len(within) - 1
        return [
            (within[min(layers - 1 - layer, last)], within[min(layers - layer, last)])
            for layer in range(layers)
        ]

    def _part(self, kind: Normalization, rows: int, columns: int) -> Graph:
        def make() -> Graph:
            part = self._built(kind, rows, columns)
            return part if self._sent is None else part.to(*self._sent)

        return self._known.get((kind, rows, columns), make)

    def _built(self, kind: Normalization, rows: int, columns: int) -> Graph:
        graph = self.whole.graph(kind)
        indptr, column, edge, factor, complete = self._edges(rows)
        dtype = graph.indices.dtype
        indices = torch.from_numpy(column).to(dtype)
        pointers = torch.from_numpy(indptr).to(dtype)
        value, weight = graph.value[edge], graph.weight[edge]
        if not complete:
            if factor is not None:
                value, weight = value * factor, weight * factor
            if self.importance is None:
                scale = self._to_row_sums(kind, pointers, value)
                value, weight = value * scale, weight * scale
        t_indptr, t_indices, t_edge = sorting.transpose(pointers, indices, columns)
        rank = None if graph.rank is None else graph.rank[edge]
        ids = self.n_id.to(dtype)
        return Graph(
            indptr=pointers,
            indices=indices,
            value=value,
            weight=weight,
            normalization=kind,
            t_indptr=t_indptr,
            t_indices=t_indices,
            t_edge=t_edge,
            rank=rank if rank is not None and bool(rank.any()) else None,
            dst_ids=ids[:rows],
            src_ids=ids[:columns],
            parent=graph,
            parent_edge=edge,
            complete=complete,
        )

    def _edges(self, rows: int) -> tuple[NDArray[Any], NDArray[Any], Tensor, Tensor | None, bool]:
        """Rows with added self-loops: pointers, columns, numbers, factors, and if all are there."""
        whole, nodes = self.whole, self.n_id.numpy()
        pointers, columns, positions, factor = self._merged()
        pointers = pointers[: rows + 1]
        sampled = np.zeros(rows, dtype=np.int64)
        sampled[: len(pointers) - 1] = np.diff(pointers)
        row_nodes = nodes[:rows]
        degree = whole.indptr[row_nodes + 1] - whole.indptr[row_nodes]
        unchanged = factor is None or bool((factor[: pointers[-1]] == 1.0).all())
        complete = unchanged and bool((sampled == degree).all())
        own = whole.added[row_nodes + 1] - whole.added[row_nodes]
        indptr = np.zeros(rows + 1, dtype=np.int64)
        np.cumsum(sampled + own, out=indptr[1:])
        column = np.empty(indptr[-1], dtype=np.int32)
        edge, place = np.empty(indptr[-1], dtype=np.int64), np.empty(indptr[-1], dtype=np.int64)
        with passes.enter_loops():
            loops.with_self_loops(
                indptr, column, edge, place, nodes, pointers, columns, positions,
                whole.indptr, whole.source, whole.added,
            )  # fmt: skip
        if factor is not None and not complete:
            there = torch.from_numpy(place)
            factor = torch.where(there < 0, 1.0, factor[there.clamp_min(0)])
        return indptr, column, torch.from_numpy(edge), factor, complete

    def _merged(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], Tensor | None]:
        """Rows in which an edge that was drawn several times stands once, and factors of edges."""

        def make() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], Tensor | None]:
            new = np.ones(len(self.positions), dtype=bool)
            new[1:] = self.positions[1:] != self.positions[:-1]
            if new.all():
                return self.indptr, self.columns, self.positions, self.importance
            first = np.flatnonzero(new)
            factor = torch.from_numpy(np.diff(np.append(first, len(new)))).float()
            if self.importance is not None:
                factor = factor * self.importance[first]
            before = np.concatenate([[0], np.cumsum(new)])
            return before[self.indptr], self.columns[first], self.positions[first], factor

        return self._known.get("merged", make)

    def _to_row_sums(self, kind: Normalization, indptr: Tensor, value: Tensor) -> Tensor:
        """The factors by which the sampled rows have the sums of the whole graph's rows."""
        rows = sorting.rows_of(indptr).long()
        total = torch.zeros(len(indptr) - 1, dtype=torch.float64)
        total.index_add_(0, rows, value.double())
        wanted = self.whole.row_sums(kind)[self.n_id[: len(total)]]
        empty = total == 0.0
        scale = torch.where(empty, 1.0, wanted / torch.where(empty, 1.0, total))
        return scale[rows].float()
