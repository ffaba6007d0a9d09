"""The edges of a call of a PyG layer as a `Graph`, from any of the formats that PyG takes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from graphdrop.graph import Graph, Normalization
from graphdrop.loading.batch import BatchGraph
from graphdrop.nn.attach.batches import batch_edges, with_global_ids, without_repetitions

CAPACITY = 16
APART = 1 << 30
"""Offset of the ids of destinations in bipartite graphs: an edge from node 3 of one type to node 3
of another is not a self-loop."""


class Ends(NamedTuple):
    """Destinations and sources in the layer's order, and the values of a sparse matrix."""

    destination: Tensor
    source: Tensor
    value: Tensor | None = None


def ends(edge_index: Any, flow: str) -> Ends:
    """The ends of edges given as `edge_index [2, E]`, as `EdgeIndex` or as `torch.sparse`.

    A sparse matrix has destinations in its rows, as in PyG.
    """
    if not isinstance(edge_index, Tensor):
        raise TypeError(
            f"edge_index is of type {type(edge_index).__name__}; it takes a tensor [2, E], an "
            "EdgeIndex or a torch.sparse matrix. Of a SparseTensor use "
            ".to_torch_sparse_csr_tensor()."
        )
    if edge_index.layout is torch.sparse_coo:
        edge_index = edge_index.coalesce()
        row, column = edge_index.indices()
        return Ends(row, column, edge_index.values())
    if edge_index.layout is not torch.strided:
        if edge_index.layout is torch.sparse_csc:
            edge_index = edge_index.to_sparse_csr()
        length = edge_index.crow_indices().diff()
        row = torch.arange(len(length), device=length.device).repeat_interleave(length)
        return Ends(row, edge_index.col_indices(), edge_index.values())
    if isinstance(edge_index, EdgeIndex):
        edge_index = edge_index.as_tensor()
    first, second = edge_index
    return Ends(second, first) if flow == "source_to_target" else Ends(first, second)


@dataclass(eq=False)
class Edges:
    """The structure of a set of edges, without weights."""

    known: tuple[Tensor, Tensor]
    """Destinations and sources, to recognize the same edges."""
    sizes: tuple[int, int]
    """Number of destinations and of sources."""
    apart: bool
    """Whether the graph is bipartite."""
    graph: Graph
    """The graph with weights 1; rates per edge have the order of its edges."""
    order: Tensor
    """The position in the layer's order of each edge of the graph."""
    place: Tensor
    """The number in the graph of each edge of the layer."""
    batch: BatchGraph | None = None
    """The mini-batch that the edges belong to; draws are keyed by its ids."""
    batch_edge: Tensor | None = None
    """The number of each edge of the graph in the mini-batch; -1 if the layer added it."""
    _weighted: tuple[Tensor | None, bool, Graph] | None = field(default=None, repr=False)

    @classmethod
    def build(
        cls,
        destination: Tensor,
        source: Tensor,
        sizes: tuple[int, int],
        apart: bool,
        *,
        ids: Tensor | None = None,
        batch: BatchGraph | None = None,
    ) -> Edges:
        """Sort the edges; `ids` are those of the nodes of a part of a graph."""
        nodes = max(sizes)
        if nodes > APART:
            raise ValueError(
                f"the graph has {nodes} nodes; an attached layer takes at most {APART}."
            )
        graph = Graph.from_edge_index(
            torch.stack([source, destination]), nodes, normalization=Normalization.NONE
        )
        rows, columns = sizes
        if int(graph.indptr[rows]) != len(source) or int(graph.t_indptr[columns]) != len(source):
            raise ValueError(
                f"edge_index joins {nodes} nodes, but the features are those of {columns} sources "
                f"and {rows} destinations"
            )
        dst_ids = src_ids = None
        if ids is not None:
            dst_ids, src_ids = (ids[:size].to(graph.indices) for size in sizes)
        if apart:
            own = torch.arange(rows).to(graph.indices) if dst_ids is None else dst_ids
            dst_ids = own + APART
        graph = replace(
            graph,
            indptr=graph.indptr[: rows + 1],
            t_indptr=graph.t_indptr[: columns + 1],
            dst_ids=dst_ids,
            src_ids=src_ids,
        )
        batch_edge = None
        if batch is not None:
            if nodes > batch.num_nodes:
                raise ValueError(
                    f"edge_index joins {nodes} nodes; in a mini-batch it takes those of the batch, "
                    f"{batch.num_nodes}."
                )
            batch_edge = batch_edges(graph, batch)
            graph = with_global_ids(graph, batch, batch_edge, apart=APART if apart else 0)
        order = torch.argsort(destination.long() * nodes + source, stable=True)
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order), device=order.device)
        known = destination.clone(), source.clone()
        return cls(known, sizes, apart, graph, order, place, batch, batch_edge)

    def fits(
        self, destination: Tensor, source: Tensor, sizes: tuple[int, int], apart: bool
    ) -> bool:
        """Whether these are the same edges in the same order."""
        return (
            self.sizes == sizes
            and self.apart == apart
            and self.known[0].device == destination.device
            and torch.equal(self.known[0], destination)
            and torch.equal(self.known[1], source)
        )

    def weighted(self, weight: Tensor | None, *, mean: bool) -> Graph:
        """The graph with the layer's weights; for a mean, divided by the degree of each row."""
        if weight is None and not mean:
            return self.graph
        if self._weighted is not None:
            known, was_mean, graph = self._weighted
            same = (
                known is weight
                if known is None or weight is None
                else known.dtype == weight.dtype and torch.equal(known, weight)
            )
            if same and was_mean == mean:
                return graph
        with torch.inference_mode(False):
            value = self.graph.value if weight is None else weight.detach()[self.order].float()
            if mean:
                value = value / self.graph.degree[self.graph.edge_dst]
            graph = self.graph.with_values(value)
            self._weighted = (None if weight is None else weight.detach().clone(), mean, graph)
        return graph

    @cached_property
    def counted(self) -> Graph:
        """The graph in which every draw stands once, for gradient estimators."""
        return self.graph if self.batch is None else without_repetitions(self.graph)

    @cached_property
    def importance(self) -> Tensor | None:
        """By what sampled edges are multiplied in a sum, in the layer's order; None for nothing."""
        given = None if self.batch is None else self.batch.given_importance
        if given is None or self.batch_edge is None:
            return None
        edge = self.batch_edge[self.place]
        return torch.where(edge < 0, 1.0, given.to(edge.device)[edge.clamp_min(0)])

    def numbered(self, entries: int) -> Edges:
        """The edges of a mini-batch with their numbers among so many of the whole graph."""
        if self.batch is None:
            return self

        def make() -> Edges:
            assert self.batch is not None  # noqa: S101
            whole, graph = self.batch.whole, self.graph
            destination, source = graph.draw_dst, graph.draw_src
            edge = whole.find(destination, source, graph.rank)
            if entries != whole.num_edges:
                edge = whole.with_loops(edge, destination, source)
            numbered = replace(graph, parent_edge=edge, structure_of=graph)
            return replace(self, graph=numbered, _weighted=None)

        return self.graph.derived(("numbered", entries), make)

    @cached_property
    def messages(self) -> Graph:
        """A graph with one row and one column per message, with the ids of its two nodes.

        The masked sum over this graph multiplies every message by its mask.
        """
        whole = self.graph
        with torch.inference_mode(False):
            index = torch.arange(whole.num_edges + 1).to(whole.indices)
            number, one = index[:-1], torch.ones_like(whole.value)
            return Graph(
                indptr=index,
                indices=number,
                value=one,
                t_indptr=index,
                t_indices=number,
                t_edge=number,
                weight=one,
                normalization=Normalization.NONE,
                rank=None if whole.rank is None else whole.rank[self.place],
                parent_edge=(
                    self.place if whole.parent_edge is None else whole.parent_edge[self.place]
                ),
                dst_ids=whole.draw_dst[self.place],
                src_ids=whole.draw_src[self.place],
            )


class EdgeCache:
    """A cache of the edges of recent calls.

    PyG layers create new tensors of edges in every pass, so that edges are compared by value, which
    takes a fraction of the time of sorting.

    Args:
        ids: the ids of the nodes of a part of a graph, by which masks are drawn; by default the
            numbers of the nodes.
    """

    def __init__(self, ids: Tensor | None = None) -> None:
        self._latest: list[Edges] = []
        self.ids = ids

    def get(
        self,
        both: Ends,
        sizes: tuple[int, int] | None = None,
        *,
        apart: bool = False,
        batch: BatchGraph | None = None,
    ) -> Edges:
        """The structure of these edges; `sizes` are the numbers of nodes, if they are known.

        The edges of a mini-batch are cached with it.
        """
        if batch is not None:
            cache = batch.derived("edges of layers", EdgeCache)
            if cache is not self:
                return cache.get(both, sizes, apart=apart, batch=batch)
        destination, source = both.destination, both.source
        if sizes is None:
            sizes = _count(destination), _count(source)
            if not apart:
                sizes = (max(sizes),) * 2
        for edges in self._latest:
            if edges.fits(destination, source, sizes, apart):
                break
        else:
            with torch.inference_mode(False):  # training may use it next
                edges = Edges.build(destination, source, sizes, apart, ids=self.ids, batch=batch)
        self._latest = [edges, *(other for other in self._latest if other is not edges)][:CAPACITY]
        return edges

    def __deepcopy__(self, memo: Any) -> EdgeCache:
        return EdgeCache()

    def __reduce__(self) -> tuple[type[EdgeCache], tuple[()]]:
        return EdgeCache, ()


def _count(ids: Tensor) -> int:
    return int(ids.max()) + 1 if ids.numel() else 0
