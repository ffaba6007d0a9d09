"""`Graph`: the normalized adjacency matrix, sorted by destination and by source.

Rows are destinations and columns are sources, as in the product `A H` of a layer. A whole graph is
square; `Graph.rows` is the rectangular part that computes only some of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from graphdrop.graph import convert, sorting, stored
from graphdrop.graph.csr import CSR, row_entries
from graphdrop.graph.normalization import Normalization, normalized_weights
from graphdrop.graph.validate import check_edge_index, check_edge_weight, check_rows

if TYPE_CHECKING:
    import networkx
    import scipy.sparse
    from torch_geometric.data import Data

INT32_MAX = 2**31 - 1


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Graph(CSR):
    """The normalized adjacency matrix of a graph, `N(A)` in the paper's eq. (1) to (5).

    Build it with `from_edge_index`, `from_data`, `from_scipy` or `from_networkx`. The number of an
    edge is its position in CSR order, sorted by (destination, source); parallel edges stay in the
    given order. Indices are int32 where they fit, otherwise int64. `value` has the normalized
    weights, `[E]` float32.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> graph = Graph.from_edge_index(edge_index, normalization="row")
        >>> graph.num_edges, graph.value[:2].tolist()  # self-loops included
        (7, [0.5, 0.5])
    """

    weight: Tensor
    """The weights before normalization, 1 by default, self-loops included, `[E]` float32."""
    normalization: Normalization
    rank: Tensor | None = None
    """The rank of each edge among parallel edges, `[E]` int32; None if there are none."""
    dst_ids: Tensor | None = None
    """The node id of each row; None if it is the number of the row."""
    src_ids: Tensor | None = None
    """The node id of each column; None if it is the number of the column."""
    parent: Graph | None = None
    """The whole graph that this is a part of."""
    parent_edge: Tensor | None = None
    """The number of each edge in the whole graph."""
    complete: bool = True
    """Whether every row has all of its edges; those of a sampled mini-batch may lack some."""

    @classmethod
    @torch.inference_mode(False)
    def from_edge_index(
        cls,
        edge_index: Tensor,
        num_nodes: int | None = None,
        edge_weight: Tensor | None = None,
        *,
        normalization: Normalization | str = Normalization.SYM,
        self_loops: bool = True,
    ) -> Graph:
        """Build from PyG's `edge_index [2, E]`: sources in row 0, destinations in row 1.

        With `self_loops` every node that has no loop gets one of weight 1, unless the
        normalization is `none`: PyG's `add_remaining_self_loops`, except that parallel self-loops
        all stay.
        """
        kind = Normalization.of(normalization)
        if self_loops and kind is not Normalization.NONE:
            known = stored.recall(edge_index, edge_weight, num_nodes)
            if isinstance(known, Graph):
                whole = known
                return whole.derived(("normalized", kind), lambda: whole.normalized(kind))
        num_nodes = check_edge_index(edge_index, num_nodes)
        limit = edge_index.shape[1] + num_nodes
        dtype = np.dtype(np.int32 if limit <= INT32_MAX else np.int64)
        source, destination = (ends.astype(dtype) for ends in edge_index.cpu().numpy())
        weight = None
        if edge_weight is not None:
            weight = check_edge_weight(edge_weight, edge_index.shape[1]).cpu().numpy()
        if self_loops and kind is not Normalization.NONE:
            alone = np.ones(num_nodes, dtype=bool)
            alone[source[source == destination]] = False
            loops = np.flatnonzero(alone).astype(dtype)
            source, destination = np.append(source, loops), np.append(destination, loops)
            if weight is not None:
                weight = np.append(weight, np.ones(len(loops), dtype=np.float32))

        sorted_edges = sorting.sorted_edges(source, destination, num_nodes)
        del source, destination
        indptr, indices, order = (torch.from_numpy(array) for array in sorted_edges)
        given = torch.ones(len(indices)) if weight is None else torch.from_numpy(weight)[order]
        value = normalized_weights(kind, indptr, indices, given)
        t_indptr, t_indices, t_edge = sorting.transpose(indptr, indices, num_nodes)
        graph = cls(
            indptr=indptr,
            indices=indices,
            weight=given,
            value=value,
            normalization=kind,
            t_indptr=t_indptr,
            t_indices=t_indices,
            t_edge=t_edge,
            rank=sorting.parallel_rank(indptr, indices),
        )
        return graph.to(edge_index.device)

    @classmethod
    def from_data(
        cls,
        data: Data,
        *,
        normalization: Normalization | str = Normalization.SYM,
        self_loops: bool = True,
    ) -> Graph:
        """Build from the `edge_index` and, where it has one, the `edge_weight` of a PyG `Data`."""
        edges = convert.edges_of_data(data)
        return cls.from_edge_index(*edges, normalization=normalization, self_loops=self_loops)

    @classmethod
    def from_scipy(
        cls,
        matrix: scipy.sparse.sparray | scipy.sparse.spmatrix,
        *,
        normalization: Normalization | str = Normalization.SYM,
        self_loops: bool = True,
    ) -> Graph:
        """Build from a square sparse matrix whose entry `A[v, u]` is the edge from u to v.

        Rows are destinations, as in `A H`; transpose a matrix that has sources in its rows. Every
        stored entry is an edge, a stored zero too; entries of one place are parallel edges.
        """
        edges = convert.edges_of_scipy(matrix)
        return cls.from_edge_index(*edges, normalization=normalization, self_loops=self_loops)

    @classmethod
    def from_networkx(
        cls,
        graph: networkx.Graph[Any],
        *,
        weight: str = "weight",
        normalization: Normalization | str = Normalization.SYM,
        self_loops: bool = True,
    ) -> Graph:
        """Build from a networkx graph; nodes are numbered in the order in which it lists them.

        An undirected edge goes both ways. `weight` names the edge attribute that holds the
        weights; an edge without it weighs 1.
        """
        edges = convert.edges_of_networkx(graph, weight)
        return cls.from_edge_index(*edges, normalization=normalization, self_loops=self_loops)

    @property
    def num_dst(self) -> int:
        """Number of rows."""
        return self.num_rows

    @property
    def num_src(self) -> int:
        """Number of columns."""
        return self.num_columns

    @property
    def num_edges(self) -> int:
        """Number of edges, self-loops included."""
        return self.num_entries

    @property
    def edge_dst(self) -> Tensor:
        """The destination row of each edge, `[E]`."""
        return self.entry_row

    @property
    def degree(self) -> Tensor:
        """Number of edges into each row, `[num_dst]`."""
        return self.row_length

    @property
    def out_degree(self) -> Tensor:
        """Number of edges out of each column, `[num_src]`."""
        return self.column_length

    @property
    def draw_dst(self) -> Tensor:
        """The node id of each edge's destination: a draw is keyed by it, `[E]`."""
        return self._ids("draw_dst", self.dst_ids, self.edge_dst)

    @property
    def draw_src(self) -> Tensor:
        """The node id of each edge's source: a draw is keyed by it, `[E]`."""
        return self._ids("draw_src", self.src_ids, self.indices)

    @property
    def t_draw_dst(self) -> Tensor:
        """`draw_dst` in transposed order, `[E]`."""
        return self._ids("t_draw_dst", self.dst_ids, self.t_indices)

    def _ids(self, name: str, ids: Tensor | None, position: Tensor) -> Tensor:
        if ids is None:
            return position
        return self.derived_from_structure(name, lambda: ids[position])

    @property
    def t_rank(self) -> Tensor | None:
        """`rank` in transposed order."""
        rank = self.rank
        if rank is None:
            return None
        return self.derived_from_structure("t_rank", lambda: rank.index_select(0, self.t_edge))

    @property
    def self_loop(self) -> Tensor:
        """Marks the edges from a node to itself, `[E]` bool."""
        return self.derived_from_structure("self_loop", lambda: self.draw_dst == self.draw_src)

    @property
    def reverse(self) -> Tensor:
        """The number of the edge (u, v) of the same rank for each edge (v, u), or -1, `[E]`."""
        return self.derived_from_structure(
            "reverse",
            lambda: sorting.reverse_edges(self.draw_dst, self.draw_src, self.rank, self.t_edge),
        )

    @property
    def source_loops(self) -> Graph:
        """The sources alone, each with a loop under its id: for what acts on nodes one by one."""

        def make() -> Graph:
            ids = self.src_ids
            if ids is None:
                ids = torch.arange(self.num_src, device=self.indices.device)
            return self.loops(ids.to(torch.int32))

        return self.derived_from_structure("source_loops", make)

    @staticmethod
    def loops(ids: Tensor) -> Graph:
        """Some nodes alone, each with a loop under its id."""
        index = torch.arange(len(ids) + 1, dtype=ids.dtype, device=ids.device)
        one = torch.ones(len(ids), device=ids.device)
        return Graph(
            indptr=index,
            indices=index[:-1],
            value=one,
            t_indptr=index,
            t_indices=index[:-1],
            t_edge=index[:-1],
            weight=one,
            normalization=Normalization.NONE,
            dst_ids=ids,
            src_ids=ids,
        )

    @property
    def complete_rows(self) -> Graph:
        """The same rows with all of their edges in the whole graph; itself if none is missing."""
        parent, rows = self.parent, self.dst_ids
        if self.complete or parent is None or rows is None:
            return self
        return self.derived("complete rows", lambda: parent.rows(rows.long()))

    @torch.inference_mode(False)
    def rows(self, rows: Tensor) -> Graph:
        """The part that computes `rows`, given as row numbers or as a bool mask `[num_dst]`.

        Its destinations are `rows` in that order, its sources are their distinct sources, sorted;
        `dst_ids` and `src_ids` have the ids of both. Weights stay normalized over the whole graph.
        """
        rows = check_rows(rows, self.num_dst).to(self.indptr.device)
        edge, indptr = row_entries(self.indptr, rows)
        sources = self.indices.index_select(0, edge)
        column_of = sources.new_zeros(self.num_src)
        column_of[sources] = 1
        columns = column_of.nonzero().flatten()
        column_of[columns] = torch.arange(len(columns), dtype=sources.dtype, device=sources.device)
        indices = column_of.index_select(0, sources)
        t_indptr, t_indices, t_edge = sorting.transpose(indptr, indices, len(columns))
        rank = None if self.rank is None else self.rank.index_select(0, edge)
        return Graph(
            indptr=indptr,
            indices=indices,
            weight=self.weight.index_select(0, edge),
            value=self.value.index_select(0, edge),
            normalization=self.normalization,
            t_indptr=t_indptr,
            t_indices=t_indices,
            t_edge=t_edge,
            rank=rank if rank is not None and bool(rank.any()) else None,
            dst_ids=rows.to(sources) if self.dst_ids is None else self.dst_ids[rows],
            src_ids=columns.to(sources) if self.src_ids is None else self.src_ids[columns],
            parent=self.parent or self,
            parent_edge=edge if self.parent_edge is None else self.parent_edge[edge],
        )

    @torch.inference_mode(False)
    def window(self, rows: tuple[int, int] | Tensor) -> Graph:
        """The part that computes some rows and reads features of all columns, without a transpose.

        Unlike `rows` it neither renumbers columns nor sorts edges: of a range of rows it is a view,
        so that a large graph can be walked window by window. No gradient passes through it.

        Args:
            rows: first and last row (exclusive), or row numbers.

        Example:
            >>> graph = Graph.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 0]]))
            >>> part = graph.window((1, 3))
            >>> part.num_dst, part.num_src, part.dst_ids.tolist()
            (2, 3, [1, 2])
        """
        if self.parent is not None:
            raise ValueError("graph is a part; window takes a whole graph. Use graph.parent.")
        like = self.indices
        entries: Tensor | slice
        if isinstance(rows, Tensor):
            numbers = rows.to(like)
            edge, indptr = row_entries(self.indptr, rows)
            entries = edge
        else:
            first, last = rows
            numbers = torch.arange(first, last, dtype=like.dtype, device=like.device)
            begin, end = int(self.indptr[first]), int(self.indptr[last])
            indptr = self.indptr[first : last + 1] - begin
            edge = torch.arange(begin, end, dtype=like.dtype, device=like.device)
            entries = slice(begin, end)
        none = like.new_empty(0)
        part = Graph(
            indptr=indptr,
            indices=self.indices[entries],
            weight=self.weight[entries],
            value=self.value[entries],
            normalization=self.normalization,
            # as many columns as the graph has, and no entry in any of them
            t_indptr=indptr.new_zeros(1).expand(self.num_src + 1),
            t_indices=none,
            t_edge=none,
            rank=None if self.rank is None else self.rank[entries],
            dst_ids=numbers,
            parent=self,
            parent_edge=edge,
        )
        part.derived_from_structure("t_chunks", lambda: torch.zeros(1, dtype=torch.int64))
        return part

    def receptive_field(self, rows: Tensor, layers: int) -> list[Graph]:
        """The parts that compute `rows` of the last of `layers` layers, first layer first.

        The sources of each are the destinations of the one before, in the same order; the first
        one's sources (`src_ids`) are the rows of the input that are read.
        """
        if self.parent is not None:
            raise ValueError(
                "graph is a part; receptive_field takes a whole graph. Use graph.parent."
            )
        if layers < 1:
            raise ValueError(f"layers is {layers}; it takes a number of at least 1.")
        parts = [self.rows(rows)]
        while len(parts) < layers:
            columns = parts[-1].src_ids
            assert columns is not None  # noqa: S101 - a part has ids
            parts.append(self.rows(columns))
        return parts[::-1]

    @torch.inference_mode(False)
    def normalized(self, normalization: Normalization | str) -> Graph:
        """The same edges under another normalization; self-loops are neither added nor removed."""
        kind = Normalization.of(normalization)
        if kind is self.normalization:
            return self
        parent = None if self.parent is None else self.parent.normalized(kind)
        if parent is None:
            value = normalized_weights(kind, self.indptr, self.indices, self.weight)
        else:
            value = parent.value[self.parent_edge]
        return replace(self, value=value, normalization=kind, parent=parent, structure_of=self)

    def unweighted(self) -> Graph:
        """The same edges, each of weight 1 and not normalized."""

        def make() -> Graph:
            one = torch.ones_like(self.value)
            kind = Normalization.NONE
            return replace(self, value=one, weight=one, normalization=kind, structure_of=self)

        return self.derived("unweighted", make)

    @torch.inference_mode(False)
    def double(self) -> Graph:
        """The same graph with weights in float64, for reference computations."""
        return replace(
            self,
            weight=self.weight.double(),
            value=self.value.double(),
            parent=None if self.parent is None else self.parent.double(),
            structure_of=self,
        )

    @torch.inference_mode(False)
    def to(self, device: torch.device | str, non_blocking: bool = False) -> Graph:
        """The same graph on another device; itself if it is there already."""
        device, here = torch.device(device), self.indptr.device
        if device in (here, torch.device(here.type)):  # "cuda" is any of them
            return self
        moved: dict[str, Any] = {}
        for name in (f.name for f in fields(self)):
            value = getattr(self, name)
            if isinstance(value, Tensor):
                if non_blocking and device.type == "cuda" and value.is_cpu:
                    value = value.pin_memory()
                moved[name] = value.to(device, non_blocking=non_blocking)
            elif isinstance(value, Graph):  # the parts of a graph share it
                moved[name] = value.derived(("on", str(device)), partial(value.to, device))
        return replace(self, **moved)

    def __repr__(self) -> str:
        size = f"num_dst={self.num_dst}, num_src={self.num_src}, num_edges={self.num_edges}"
        return f"Graph({size}, normalization={self.normalization.value!r})"
