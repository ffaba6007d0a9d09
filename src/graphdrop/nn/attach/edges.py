"""The edges of a call of a PyG layer as a `Graph`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from graphdrop.graph import Graph, Normalization
from graphdrop.loading.batch import BatchGraph

CAPACITY = 16
APART = 1 << 30
"""Offset of the ids of destinations in bipartite graphs: an edge from node 3 of one type to node 3
of another is not a self-loop."""


class Ends(NamedTuple):
    """Destinations and sources in the layer's order, and the values of a sparse matrix."""

    destination: Tensor
    source: Tensor
    value: Tensor | None = None


def split_edges(edge_index: Any, flow: str) -> Ends:
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

    ends: tuple[Tensor, Tensor]
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
    _weighted: tuple[Tensor | None, Any, Graph] | None = field(default=None, repr=False)

    @classmethod
    def build(
        cls,
        destination: Tensor,
        source: Tensor,
        sizes: tuple[int, int],
        apart: bool,
        *,
        batch: BatchGraph | None = None,
    ) -> Edges:
        """Sort the edges."""
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
        ids = torch.arange(rows).to(graph.indices) + APART if apart else None
        graph = replace(
            graph,
            indptr=graph.indptr[: rows + 1],
            t_indptr=graph.t_indptr[: columns + 1],
            dst_ids=ids,
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
            and self.ends[0].device == destination.device
            and torch.equal(self.ends[0], destination)
            and torch.equal(self.ends[1], source)
        )

    @cached_property
    def counted(self) -> Graph:
        """The graph in which every draw stands once, for gradient estimators."""
        return self.graph if self.batch is None else drop_repetitions(self.graph)

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
        graph, whole = self.graph, None if self.batch is None else self.batch.whole

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

    def number_among(self, entries: int) -> Edges:
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
            if self.batch is None:
                return graph.normalized(Normalization.SYM)
            whole = self.batch.whole.pyg_graph(loop_weight).to(raw.device)
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

        return self._derive(weight, ("before", loop_weight), make)

    def with_weights(self, weight: Tensor | None, *, mean: bool) -> Graph:
        """The graph with the layer's weights; for a mean, divided by the degree of each row."""
        if weight is None and not mean:
            return self.graph

        def make(value: Tensor) -> Graph:
            if mean:
                value = value / self.graph.degree[self.graph.edge_dst]
            return self.graph.with_values(value)

        return self._derive(weight, mean, make)

    def _derive(self, weight: Tensor | None, form: Any, make: Callable[[Tensor], Graph]) -> Graph:
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
    """

    def __init__(self) -> None:
        self._latest: list[Edges] = []

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
                edges = Edges.build(destination, source, sizes, apart, batch=batch)
        self._latest = [edges, *(other for other in self._latest if other is not edges)][:CAPACITY]
        return edges

    def __deepcopy__(self, memo: Any) -> EdgeCache:
        return EdgeCache()

    def __reduce__(self) -> tuple[type[EdgeCache], tuple[()]]:
        return EdgeCache, ()


def _count(ids: Tensor) -> int:
    return int(ids.max()) + 1 if ids.numel() else 0


def edge_numbers(whole: Graph, part: Graph) -> Tensor:
    """The number in a whole graph of each edge of a part, found by ids and rank; any if missing."""
    nodes = whole.num_src
    keys = whole.derived_from_structure(
        "keys of edges", lambda: whole.edge_dst.long() * nodes + whole.indices.long()
    )
    found = torch.searchsorted(keys, part.draw_dst.long() * nodes + part.draw_src.long())
    if part.rank is not None:
        found = found + part.rank
    return found.clamp_(max=max(0, whole.num_edges - 1))


def batch_edges(graph: Graph, batch: BatchGraph) -> Tensor:
    """The number in the batch's `edge_index` of each edge of a layer's graph; -1 if not there.

    A layer may add self-loops to the edges of a batch. It keeps the order of parallel edges.
    """
    row, column, _ = batch.in_given_order
    key = row * batch.num_nodes + column
    order = torch.argsort(key, stable=True)
    key = key[order]
    wanted = (graph.edge_dst.long() * batch.num_nodes + graph.indices.long()).cpu()
    place = torch.searchsorted(key, wanted)
    if graph.rank is not None:
        place = place + graph.rank.cpu()
    there = place < len(key)
    there[there.clone()] = key[place[there]] == wanted[there]
    found = torch.full_like(wanted, -1)
    found[there] = order[place[there]]
    return found.to(graph.indices.device)


def with_global_ids(graph: Graph, batch: BatchGraph, edges: Tensor, *, apart: int = 0) -> Graph:
    """A layer's graph with the ids of the whole graph, and the ranks of its parallel edges.

    Args:
        graph: local numbers, ranks by occurrence.
        batch: whose nodes these are.
        edges: by `batch_edges`.
        apart: offset of the ids of destinations.
    """
    ids, of_whole, rank = batch.n_id.to(graph.indices), batch.whole.rank, graph.rank
    if rank is not None or of_whole is not None:
        occurrence = torch.zeros_like(edges) if rank is None else rank.long()
        known = torch.zeros_like(edges)
        if of_whole is not None:
            _, _, position = batch.in_given_order
            known = of_whole[position[edges.clamp_min(0).cpu()]].long().to(edges.device)
        rank = torch.where(edges < 0, occurrence, known)  # drawn twice is not parallel
    if rank is not None and not bool(rank.any()):
        rank = None
    return replace(
        graph,
        rank=None if rank is None else rank.to(torch.int32),
        dst_ids=ids[: graph.num_dst] + apart,
        src_ids=ids[: graph.num_src],
    )


def drop_repetitions(graph: Graph) -> Graph:
    """The graph in which an edge that was drawn several times stands once."""
    key = graph.edge_dst.long() * graph.num_src + graph.indices
    rank = torch.zeros_like(key) if graph.rank is None else graph.rank.long()
    order = torch.from_numpy(np.lexsort((rank.cpu().numpy(), key.cpu().numpy()))).to(key.device)
    again = (key[order].diff() == 0) & (rank[order].diff() == 0)
    if not bool(again.any()):
        return graph
    kept = torch.ones(graph.num_edges, dtype=torch.bool, device=key.device)
    kept[order[1:][again]] = False
    rows, columns = graph.num_dst, graph.num_src
    ends = torch.stack([graph.indices, graph.edge_dst])[:, kept].long()
    once = Graph.from_edge_index(ends, max(rows, columns), normalization=Normalization.NONE)
    return replace(
        once,
        indptr=once.indptr[: rows + 1],
        t_indptr=once.t_indptr[: columns + 1],
        rank=None if graph.rank is None else graph.rank[kept],
        dst_ids=graph.dst_ids,
        src_ids=graph.src_ids,
        parent=graph.parent,
        parent_edge=None if graph.parent_edge is None else graph.parent_edge[kept],
    )
