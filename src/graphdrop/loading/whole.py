"""`WholeGraph`: what a mini-batch has to know of the graph that it was taken from.

The rows of the adjacency matrix without added self-loops, which neighbour samplers read; the
numbers of edges in `edge_index`; and, on demand, the normalized `Graph` and the degrees of nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphdrop.graph import convert, sorting
from graphdrop.graph.graph import INT32_MAX, Graph
from graphdrop.graph.memo import Memo
from graphdrop.graph.normalization import Normalization
from graphdrop.graph.validate import check_edge_index, check_edge_weight

if TYPE_CHECKING:
    from torch_geometric.data import Data


class WholeGraph:
    """A whole graph, for the batches that are taken from it.

    Edges are sorted by (destination, source), parallel edges in the given order; the position of an
    edge is its place in that order. Added self-loops are not among them.

    Args:
        edge_index: `[2, E]`, sources in row 0, destinations in row 1.
        num_nodes: the number of nodes; by default one more than the largest id.
        edge_weight: `[E]`, 1 by default.
        x: the features of all nodes, for rates that are computed from them.

    Example:
        >>> whole = WholeGraph(torch.tensor([[2, 0, 1], [1, 1, 0]]))
        >>> whole.indptr.tolist(), whole.source.tolist(), whole.e_id.tolist()
        ([0, 1, 3, 3], [1, 0, 2], [2, 1, 0])
    """

    def __init__(
        self,
        edge_index: Tensor,
        num_nodes: int | None = None,
        edge_weight: Tensor | None = None,
        x: Tensor | None = None,
    ) -> None:
        self.num_nodes = check_edge_index(edge_index, num_nodes)
        self.num_edges = int(edge_index.shape[1])
        self.x, self.edge_index, self.edge_weight = x, edge_index, edge_weight
        limit = self.num_edges + self.num_nodes
        dtype = np.dtype(np.int32 if limit <= INT32_MAX else np.int64)
        source, destination = (ends.astype(dtype) for ends in edge_index.cpu().numpy())
        indptr, self.source, self.e_id = sorting.sorted_edges(source, destination, self.num_nodes)
        self.indptr: NDArray[Any] = indptr.astype(np.int64)
        self.weight: Tensor | None = None
        if edge_weight is not None:
            given = check_edge_weight(edge_weight, self.num_edges).cpu()
            self.weight = given[torch.from_numpy(self.e_id).long()]
        own = source[source == destination]
        self.looped: NDArray[np.uint8] = np.zeros(self.num_nodes if len(own) else 0, dtype=np.uint8)
        """Marks the nodes that have a self-loop of their own; empty if none has."""
        self.looped[own] = 1
        self._known = Memo()

    @classmethod
    def from_data(cls, data: Data) -> WholeGraph:
        """From the `edge_index` of a PyG `Data` and, where it has them, `edge_weight` and `x`."""
        edges = convert.edges_of_data(data)
        return cls(*edges, getattr(data, "x", None))

    def __reduce__(self) -> Any:
        state = {name: value for name, value in vars(self).items() if name != "_known"}
        return _restored, (state,)

    @property
    def rank(self) -> Tensor | None:
        """The rank of each edge among parallel edges, by position; None if there are none."""
        return self._known.get(
            "rank",
            lambda: sorting.parallel_rank(
                torch.from_numpy(self.indptr), torch.from_numpy(self.source)
            ),
        )

    @property
    def position(self) -> NDArray[Any]:
        """The position of each edge of `edge_index`, the inverse of `e_id`."""

        def make() -> NDArray[Any]:
            inverse = np.empty_like(self.e_id)
            inverse[self.e_id] = np.arange(self.num_edges, dtype=inverse.dtype)
            return inverse

        return self._known.get("position", make)

    @property
    def added(self) -> NDArray[Any]:
        """How many self-loops `graph` adds to the nodes before each one, `[nodes + 1]` int64."""

        def make() -> NDArray[Any]:
            count = np.zeros(self.num_nodes + 1, dtype=np.int64)
            count[1:] = 1 - self.looped if len(self.looped) else 1
            return np.cumsum(count)

        return self._known.get("added", make)

    def graph(self, normalization: Normalization | str) -> Graph:
        """The whole graph under a normalization, with self-loops, computed once."""
        kind = Normalization.of(normalization)
        if kind is Normalization.NONE:
            raise ValueError(
                "normalization is 'none'; a batch takes one that adds self-loops: row, sym or paper"
            )
        known = Normalization.SYM  # the others share its structure

        def make() -> Graph:
            if kind is not known:
                return self.graph(known).normalized(kind)
            edges = self.edge_index, self.num_nodes, self.edge_weight
            return Graph.from_edge_index(*edges, normalization=kind)

        return self._known.get(("graph", kind), make)

    def keep(self, graph: Graph) -> Graph:
        """Let `graph` return this one, which a model has built of the same edges; returns it."""
        return self._known.get(("graph", graph.normalization), lambda: graph)

    @property
    def degree(self) -> NDArray[Any]:
        """The number of edges into each node, without added self-loops."""
        return np.diff(self.indptr)

    def pyg_graph(self, loop_weight: float | None) -> Graph:
        """The whole graph as PyG's `gcn_norm` normalizes it, computed once.

        Args:
            loop_weight: the weight of the self-loop that a node without one is given, where edges
                have weights; of several of its own the last one counts. None adds no self-loops.
        """

        def make() -> Graph:
            from torch_geometric.utils import add_remaining_self_loops  # noqa: PLC0415 - seconds

            edges, weight = self.edge_index, self.edge_weight
            if loop_weight is not None:
                edges, weight = add_remaining_self_loops(edges, weight, loop_weight, self.num_nodes)
            return Graph.from_edge_index(
                edges, self.num_nodes, weight, normalization=Normalization.SYM, self_loops=False
            )

        return self._known.get(("PyG's graph", loop_weight), make)

    def row_sums(self, normalization: Normalization) -> Tensor:
        """The sum of every row of the normalized matrix, `[nodes]`."""

        def make() -> Tensor:
            graph = self.graph(normalization)
            total = torch.zeros(self.num_nodes, dtype=torch.float64)
            return total.index_add_(0, graph.edge_dst.long(), graph.value.double())

        return self._known.get(("rows", normalization), make)

    def __repr__(self) -> str:
        return f"WholeGraph(num_nodes={self.num_nodes}, num_edges={self.num_edges})"


def _restored(state: dict[str, Any]) -> WholeGraph:
    whole = object.__new__(WholeGraph)
    vars(whole).update(state, _known=Memo())
    return whole
