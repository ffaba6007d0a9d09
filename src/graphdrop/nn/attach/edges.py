"""The edges of a call of a PyG layer as a `Graph`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from graphdrop.graph import Graph, Normalization
from graphdrop.loading.batch import BatchGraph
from graphdrop.loading.whole import WholeGraph
from graphdrop.nn.attach.batches import (
    batch_edges,
    edge_numbers,
    with_global_ids,
    without_repetitions,
)
from graphdrop.nn.attach.ends import Ends

CAPACITY = 16
APART = 1 << 30
"""Offset of the ids of destinations in bipartite graphs: an edge from node 3 of one type to node 3
of another is not a self-loop."""


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
    whole: WholeGraph | None = None
    """The graph of which the edges are a part; None if they are all."""
    _weighted: tuple[Tensor | None, Any, Graph] | None = field(default=None, repr=False)

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
        whole: WholeGraph | None = None,
    ) -> Edges:
        """Sort the edges; `ids` are those of the nodes of a part of `whole`."""
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
        whole = whole if batch is None else batch.whole
        return cls(known, sizes, apart, graph, order, place, batch, batch_edge, whole)

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

    def whole_with(self, entries: int) -> Graph:
        """The whole graph that has so many edges: with the self-loops that `Graph` adds, or without
        any that were added. The graph itself if there is none.
        """
        graph, whole = self.graph, self.whole

        def make() -> Graph:
            if whole is not None:
                candidates = [whole.graph(Normalization.SYM), whole.pyg_graph(None)]
            elif self.apart or entries == graph.num_edges:
                return graph
            else:
                ends = torch.stack([graph.indices, graph.edge_dst])
                kinds = (ends, Normalization.SYM), (ends[:, ~graph.self_loop], Normalization.NONE)
                size = max(self.sizes)
                candidates = [Graph.from_edge_index(e, size, normalization=k) for e, k in kinds]
            found = [one for one in candidates if one.num_edges == entries]
            return found[0].to(graph.indices.device) if found else graph

        return graph.derived(("whole with", entries), make)

    def numbered(self, entries: int) -> Edges:
        """The edges with their numbers among so many of the whole graph, for rates per edge."""
        graph, full = self.graph, self.whole_with(entries)
        if full is graph:
            return self

        def make() -> Edges:
            parts = {"parent": full, "parent_edge": edge_numbers(full, graph)}
            numbered = replace(graph, **parts, structure_of=graph)  # type: ignore[arg-type]
            return replace(self, graph=numbered, _weighted=None)

        return graph.derived(("numbered", entries), make)

    def before_normalization(self, weight: Tensor, loop_weight: float | None) -> Graph:
        """The graph with weights that are still to be normalized, by the degrees of all edges.

        Args:
            weight: in the layer's order.
            loop_weight: of the self-loops that the layer adds.
        """

        def make(raw: Tensor) -> Graph:
            graph = replace(self.graph, weight=raw, value=raw, structure_of=self.graph)
            if self.whole is None:
                return graph.normalized(Normalization.SYM)
            whole = self.whole.pyg_graph(loop_weight).to(raw.device)
            edge = edge_numbers(whole, graph)
            factor = torch.where(whole.weight == 0.0, 0.0, whole.value / whole.weight)
            return replace(
                graph,
                value=raw * factor[edge],
                normalization=Normalization.SYM,
                parent=whole,
                parent_edge=edge,
                complete=False,
                structure_of=graph,
            )

        return self._with_weights(weight, ("before", loop_weight), make)

    def weighted(self, weight: Tensor | None, *, mean: bool) -> Graph:
        """The graph with the layer's weights; for a mean, divided by the degree of each row."""
        if weight is None and not mean:
            return self.graph

        def make(value: Tensor) -> Graph:
            if mean:
                value = value / self.graph.degree[self.graph.edge_dst]
            return self.graph.with_values(value)

        return self._with_weights(weight, mean, make)

    def _with_weights(
        self, weight: Tensor | None, form: Any, make: Callable[[Tensor], Graph]
    ) -> Graph:
        """The graph of the last call with these weights and this form, or a new one."""
        if self._weighted is not None:
            known, was, graph = self._weighted
            same = (
                known is weight
                if known is None or weight is None
                else known.dtype == weight.dtype and torch.equal(known, weight)
            )
            if same and was == form:
                return graph
        with torch.inference_mode(False):
            graph = make(
                self.graph.value if weight is None else weight.detach()[self.order].float()
            )
            self._weighted = (None if weight is None else weight.detach().clone(), form, graph)
        return graph

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
        whole: the graph that the nodes are a part of.
    """

    def __init__(self, ids: Tensor | None = None, whole: WholeGraph | None = None) -> None:
        self._latest: list[Edges] = []
        self.ids, self.whole = ids, whole

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
                edges = Edges.build(
                    destination, source, sizes, apart, ids=self.ids, batch=batch, whole=self.whole
                )
        self._latest = [edges, *(other for other in self._latest if other is not edges)][:CAPACITY]
        return edges

    def __deepcopy__(self, memo: Any) -> EdgeCache:
        return EdgeCache()

    def __reduce__(self) -> tuple[type[EdgeCache], tuple[()]]:
        return EdgeCache, ()


def _count(ids: Tensor) -> int:
    return int(ids.max()) + 1 if ids.numel() else 0
