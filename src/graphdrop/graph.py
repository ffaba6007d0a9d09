"""`Graph`: the edges of a graph by destination and by source, with normalised weights.

Rows are destinations and columns are sources, as in the product `A H` of a layer: a whole graph is
square, and `Graph.rows` gives the rectangular part of it that computes just some of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from torch import Tensor

from graphdrop.draws import SOURCE_ONLY

if TYPE_CHECKING:
    import networkx
    import scipy.sparse
    from torch_geometric.data import Data

CHUNKS = 64
MAX_NODES = SOURCE_ONLY - 1  # the two highest 32-bit ids are taken by draws without an edge
INT32_MAX = 2**31 - 1

Indices = NDArray[np.signedinteger[Any]]


class Normalisation(StrEnum):
    """How the weights of the edges become the matrix that a layer multiplies by.

    D is diagonal and has the row sums: the incoming weight of each destination. 0^-1 and 0^-1/2
    are 0. A self-loop that is in the data takes the place of that node's entry in I.
    """

    ROW = "row"
    """D^-1 (A + I), D of A + I."""
    SYM = "sym"
    """D^-1/2 (A + I) D^-1/2, D of A + I: the same as PyG's `gcn_norm`."""
    PAPER = "paper"
    """I + D^-1/2 A D^-1/2, D of A alone: self-loops keep their own weight and are not in D."""
    NONE = "none"
    """A as it was given; no self-loops are added."""


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """Edges in CSR order over destinations, their transpose, and their normalised weights.

    The number of an edge is its position in CSR order, sorted by (destination, source); parallel
    edges keep the order they were given in. Indices are int32 where they fit, else int64.
    """

    indptr: Tensor
    """Where each destination's edges begin, `[num_dst + 1]`."""
    indices: Tensor
    """The source of each edge, `[E]`."""
    weight: Tensor
    """The weights as given, 1 where there were none, self-loops included, `[E]` float32."""
    value: Tensor
    """The normalised weights, `[E]` float32."""
    normalisation: Normalisation
    t_indptr: Tensor
    """Where each source's edges begin in transposed order, `[num_src + 1]`."""
    t_indices: Tensor
    """The destination of each edge in transposed order, `[E]`."""
    t_edge: Tensor
    """The number of each edge in transposed order, `[E]`."""
    t_value: Tensor
    """`value` in transposed order, so that a backward pass reads it in sequence, `[E]`."""
    rank: Tensor | None = None
    """The rank of each edge among its parallels, `[E]` int32; None where there are no parallels."""
    dst_ids: Tensor | None = None
    """The node id of each row; None where they are the same."""
    src_ids: Tensor | None = None
    """The node id of each column; None where they are the same."""
    parent: Graph | None = field(default=None, kw_only=True)
    """The whole graph that this is a part of."""
    parent_edge: Tensor | None = field(default=None, kw_only=True)
    """The number of each edge in the whole graph."""

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Tensor,
        num_nodes: int | None = None,
        edge_weight: Tensor | None = None,
        *,
        normalisation: Normalisation | str = Normalisation.SYM,
        self_loops: bool = True,
    ) -> Graph:
        """Build from PyG's `edge_index [2, E]`: sources in row 0, destinations in row 1.

        With `self_loops` every node that has no loop gets one of weight 1 (PyG's
        `add_remaining_self_loops`, except that parallel self-loops all stay), unless the
        normalisation is `none`.
        """
        kind = _kind(normalisation)
        num_nodes = _check_edge_index(edge_index, num_nodes)
        if edge_weight is not None:
            edge_weight = _check_edge_weight(edge_weight, edge_index.shape[1])
        source, destination = edge_index.detach().cpu().unbind()
        limit = max(num_nodes, edge_index.shape[1] + num_nodes)
        dtype = np.dtype(np.int32 if limit <= INT32_MAX else np.int64)
        graph = cls._build(
            source.numpy().astype(dtype),
            destination.numpy().astype(dtype),
            None if edge_weight is None else edge_weight.numpy(),
            num_nodes,
            kind,
            self_loops=self_loops and kind is not Normalisation.NONE,
        )
        return graph.to(edge_index.device)

    @classmethod
    def from_data(
        cls,
        data: Data,
        *,
        normalisation: Normalisation | str = Normalisation.SYM,
        self_loops: bool = True,
    ) -> Graph:
        """Build from the `edge_index` and, where it has one, the `edge_weight` of a PyG `Data`."""
        edge_index = getattr(data, "edge_index", None)
        if edge_index is None:
            raise ValueError(
                f"data must be a PyG Data with an edge_index; got {data!r}: "
                "give it one, or use another constructor of Graph"
            )
        return cls.from_edge_index(
            edge_index,
            data.num_nodes,
            getattr(data, "edge_weight", None),
            normalisation=normalisation,
            self_loops=self_loops,
        )

    @classmethod
    def from_scipy(
        cls,
        matrix: scipy.sparse.sparray | scipy.sparse.spmatrix,
        *,
        normalisation: Normalisation | str = Normalisation.SYM,
        self_loops: bool = True,
    ) -> Graph:
        """Build from a square sparse matrix whose entry `A[v, u]` is the edge from u to v.

        Rows are destinations, as in `A H`; transpose a matrix that has sources in its rows. Every
        stored entry is an edge, and entries that are stored twice are parallel edges.
        """
        if not issparse(matrix):
            raise TypeError(
                f"matrix must be a scipy sparse matrix; got {type(matrix).__name__}: "
                "make one with scipy.sparse.coo_array(matrix)"
            )
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(
                f"matrix must be square, one row and one column per node; got shape {matrix.shape}"
            )
        entries = matrix.tocoo()
        if entries.data.dtype.kind not in "biuf":
            raise TypeError(f"matrix must have real entries; got dtype {entries.data.dtype}")
        return cls.from_edge_index(
            torch.from_numpy(np.stack([entries.col, entries.row]).astype(np.int64)),
            matrix.shape[0],
            torch.from_numpy(entries.data.astype(np.float64)),
            normalisation=normalisation,
            self_loops=self_loops,
        )

    @classmethod
    def from_networkx(
        cls,
        graph: networkx.Graph[Any],
        *,
        weight: str = "weight",
        normalisation: Normalisation | str = Normalisation.SYM,
        self_loops: bool = True,
    ) -> Graph:
        """Build from a networkx graph; nodes are numbered in the order in which it lists them.

        An undirected edge goes both ways (a self-loop once). `weight` names the edge attribute
        that holds the weights; an edge without it weighs 1.
        """
        if not hasattr(graph, "edges") or not hasattr(graph, "is_directed"):
            raise TypeError(f"graph must be a networkx graph; got {type(graph).__name__}")
        number = {node: index for index, node in enumerate(graph)}
        edges = [(number[u], number[v], w) for u, v, w in graph.edges(data=weight, default=1.0)]
        table = np.array(edges, dtype=np.float64).reshape(-1, 3)
        edge_index, edge_weight = table[:, :2].T.astype(np.int64), table[:, 2]
        if not graph.is_directed():
            proper = edge_index[0] != edge_index[1]
            edge_index = np.concatenate([edge_index, edge_index[::-1, proper]], axis=1)
            edge_weight = np.concatenate([edge_weight, edge_weight[proper]])
        return cls.from_edge_index(
            torch.from_numpy(edge_index),
            len(number),
            torch.from_numpy(edge_weight),
            normalisation=normalisation,
            self_loops=self_loops,
        )

    @classmethod
    def _build(
        cls,
        source: Indices,
        destination: Indices,
        weight: NDArray[np.float32] | None,
        num_nodes: int,
        kind: Normalisation,
        *,
        self_loops: bool,
    ) -> Graph:
        dtype = source.dtype
        if self_loops:
            alone = np.ones(num_nodes, dtype=bool)
            alone[source[source == destination]] = False
            loops = np.flatnonzero(alone).astype(dtype)
            source, destination = np.append(source, loops), np.append(destination, loops)
            if weight is not None:
                weight = np.append(weight, np.ones(len(loops), dtype=np.float32))
        # Two counting sorts, by source and then by destination: linear, and both stable.
        one_each = np.arange(len(source) + 1, dtype=dtype)
        starts, order, _ = _transposed(one_each, source, num_nodes)
        indptr, indices, position = _transposed(starts, destination[order], num_nodes)
        if weight is None:
            weight = np.ones(len(indices), dtype=np.float32)
        else:
            weight = weight[order[position]]
        del source, destination, one_each, starts, order, position
        csr = torch.from_numpy(indptr), torch.from_numpy(indices)
        raw = torch.from_numpy(weight)
        value = _normalised_weights(kind, *csr, raw)
        rank = _parallel_rank(*csr)
        return cls(*csr, raw, value, kind, *_transpose(*csr, num_nodes, value), rank)

    @property
    def num_dst(self) -> int:
        """Number of rows."""
        return self.indptr.shape[0] - 1

    @property
    def num_src(self) -> int:
        """Number of columns."""
        return self.t_indptr.shape[0] - 1

    @property
    def num_edges(self) -> int:
        """Number of edges, self-loops included."""
        return self.indices.shape[0]

    @cached_property
    def edge_dst(self) -> Tensor:
        """The destination row of each edge, `[E]`."""
        return _rows_of(self.indptr)

    @cached_property
    def draw_dst(self) -> Tensor:
        """The node id of each edge's destination: a draw is keyed by it, `[E]`."""
        return self.edge_dst if self.dst_ids is None else self.dst_ids[self.edge_dst]

    @cached_property
    def draw_src(self) -> Tensor:
        """The node id of each edge's source: a draw is keyed by it, `[E]`."""
        return self.indices if self.src_ids is None else self.src_ids[self.indices]

    @cached_property
    def t_draw_dst(self) -> Tensor:
        """`draw_dst` in transposed order, `[E]`."""
        return self.t_indices if self.dst_ids is None else self.dst_ids[self.t_indices]

    @cached_property
    def t_rank(self) -> Tensor | None:
        """`rank` in transposed order."""
        return None if self.rank is None else self.rank[self.t_edge]

    @cached_property
    def self_loop(self) -> Tensor:
        """Marks the edges from a node to itself, `[E]` bool."""
        return self.draw_dst == self.draw_src

    @cached_property
    def degree(self) -> Tensor:
        """Number of edges into each row, `[num_dst]`."""
        return self.indptr.diff()

    @cached_property
    def out_degree(self) -> Tensor:
        """Number of edges out of each column, `[num_src]`."""
        return self.t_indptr.diff()

    @cached_property
    def chunks(self) -> Tensor:
        """Boundaries of 64 runs of rows of nearly equal work (edges and rows), `[65]` int64."""
        return _chunks(self.indptr)

    @cached_property
    def t_chunks(self) -> Tensor:
        """`chunks` of the transpose: runs of columns."""
        return _chunks(self.t_indptr)

    @cached_property
    def reverse(self) -> Tensor:
        """The number of the edge (u, v) of the same rank for each edge (v, u), or -1, `[E]`."""
        destination, source = (
            ids.cpu().numpy().astype(np.uint64) for ids in (self.draw_dst, self.draw_src)
        )
        key = destination << np.uint64(32) | source
        wanted = source << np.uint64(32) | destination
        order = None
        if self.dst_ids is not None:  # rows may stand in any order
            order = np.argsort(key, kind="stable")
            key = key[order]
        position = np.searchsorted(key, wanted)
        if self.rank is not None:
            position += self.rank.cpu().numpy()
        found = position < len(key)
        found[found] = key[position[found]] == wanted[found]
        position[~found] = 0
        if order is not None:
            position = order[position]
        position[~found] = -1
        return torch.from_numpy(position).to(self.indices)

    def rows(self, rows: Tensor) -> Graph:
        """The part that computes `rows`, given as row numbers or as a bool mask `[num_dst]`.

        Its destinations are `rows` in that order, its sources are their distinct sources, sorted;
        `dst_ids` and `src_ids` have the ids of both. Weights stay normalised over the whole graph.
        """
        rows = _check_rows(rows, self.num_dst).to(self.indptr.device)
        start, degree = self.indptr[rows], self.degree[rows]
        indptr = torch.zeros_like(self.indptr[: len(rows) + 1])
        torch.cumsum(degree, 0, out=indptr[1:])
        edge = (start - indptr[:-1]).repeat_interleave(degree)
        edge += torch.arange(len(edge)).to(edge)

        sources = self.indices[edge]
        read = torch.zeros(self.num_src, dtype=torch.bool, device=sources.device)
        read[sources] = True
        columns = read.nonzero().flatten().to(sources)
        column_of = torch.empty(self.num_src, dtype=sources.dtype, device=sources.device)
        column_of[columns] = torch.arange(len(columns)).to(sources)
        indices, value = column_of[sources], self.value[edge]
        rank = None if self.rank is None else self.rank[edge]
        return Graph(
            indptr,
            indices,
            self.weight[edge],
            value,
            self.normalisation,
            *_transpose(indptr, indices, len(columns), value),
            rank=rank if rank is not None and rank.any() else None,
            dst_ids=rows.to(sources) if self.dst_ids is None else self.dst_ids[rows],
            src_ids=columns if self.src_ids is None else self.src_ids[columns],
            parent=self.parent or self,
            parent_edge=edge if self.parent_edge is None else self.parent_edge[edge],
        )

    def receptive_field(self, rows: Tensor, layers: int) -> list[Graph]:
        """The parts that compute `rows` of the last of `layers` layers, first layer first.

        The sources of each are the destinations of the one before, in the same order; the first
        one's sources (`src_ids`) are the rows of the input that are read.
        """
        if self.parent is not None:
            raise ValueError("receptive_field needs the whole graph; got a part: use graph.parent")
        if layers < 1:
            raise ValueError(f"layers must be at least 1; got {layers}")
        parts = [self.rows(rows)]
        while len(parts) < layers:
            columns = parts[-1].src_ids
            assert columns is not None  # noqa: S101 - a part has ids
            parts.append(self.rows(columns))
        return parts[::-1]

    def normalised(self, normalisation: Normalisation | str) -> Graph:
        """The same edges under another normalisation; self-loops are neither added nor removed."""
        kind = _kind(normalisation)
        if kind is self.normalisation:
            return self
        if self.parent is not None:
            value = self.parent.normalised(kind).value[self.parent_edge]
        else:
            value = _normalised_weights(kind, self.indptr, self.indices, self.weight)
        return replace(self, value=value, t_value=value[self.t_edge], normalisation=kind)

    def double(self) -> Graph:
        """The same graph with weights in float64, for reference computations."""
        weights = {name: getattr(self, name).double() for name in ("weight", "value", "t_value")}
        return replace(self, **weights)

    def to(self, device: torch.device | str) -> Graph:
        """The same graph on another device; itself if it is there already."""
        if self.indptr.device == torch.device(device):
            return self
        moved: dict[str, Any] = {}
        for name in (f.name for f in fields(self)):
            value = getattr(self, name)
            if isinstance(value, Tensor | Graph):
                moved[name] = value.to(device)
        return replace(self, **moved)

    def __repr__(self) -> str:
        size = f"num_dst={self.num_dst}, num_src={self.num_src}, num_edges={self.num_edges}"
        return f"Graph({size}, normalisation={self.normalisation.value!r})"


def _kind(normalisation: Normalisation | str) -> Normalisation:
    try:
        return Normalisation(normalisation)
    except ValueError:
        raise ValueError(
            f"normalisation is {normalisation!r}: give one of {', '.join(Normalisation)}"
        ) from None


def _check_edge_index(edge_index: Tensor, num_nodes: int | None) -> int:
    """Raise unless these are edges among `num_nodes` nodes, which is returned or inferred."""
    if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided:
        raise TypeError(
            "edge_index must be a dense integer tensor of shape [2, E]; "
            f"got {type(edge_index).__name__}: for a sparse matrix use Graph.from_scipy"
        )
    if edge_index.dtype == torch.bool or edge_index.is_floating_point() or edge_index.is_complex():
        raise TypeError(f"edge_index must have an integer dtype; got {edge_index.dtype}")
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise ValueError(
            "edge_index must have shape [2, E], sources above destinations; "
            f"got {tuple(edge_index.shape)}"
        )
    smallest, largest = 0, -1
    if edge_index.numel():
        smallest, largest = (int(end) for end in edge_index.aminmax())
    if smallest < 0:
        raise ValueError(f"edge_index must hold node numbers from 0; got {smallest}")
    if num_nodes is None:
        num_nodes = largest + 1
    if num_nodes < 0 or largest >= num_nodes:
        raise ValueError(
            f"num_nodes is {num_nodes}, but edge_index names node {largest}: "
            f"give at least {largest + 1}"
        )
    if num_nodes > MAX_NODES:
        raise ValueError(
            f"num_nodes is {num_nodes}, at most {MAX_NODES} can be told apart in draws: "
            "renumber the nodes from 0 without gaps"
        )
    return num_nodes


def _check_edge_weight(edge_weight: Tensor, num_edges: int) -> Tensor:
    """Raise unless this is one finite weight per edge; returns it as float32."""
    if not isinstance(edge_weight, Tensor) or edge_weight.is_complex():
        got = edge_weight.dtype if isinstance(edge_weight, Tensor) else type(edge_weight).__name__
        raise TypeError(f"edge_weight must be a tensor of real numbers; got {got}")
    if edge_weight.shape != (num_edges,):
        raise ValueError(
            f"edge_weight must have one entry for each of the {num_edges} edges; "
            f"got shape {tuple(edge_weight.shape)}"
        )
    if edge_weight.requires_grad:
        raise ValueError("edge_weight requires a gradient, which a graph does not carry: detach it")
    edge_weight = edge_weight.cpu().to(torch.float32)
    if not bool(edge_weight.isfinite().all()):
        edge = int((~edge_weight.isfinite()).nonzero()[0])
        raise ValueError(
            f"edge_weight must be finite in float32; got {float(edge_weight[edge])} at edge {edge}"
        )
    return edge_weight


def _check_rows(rows: Tensor, num_rows: int) -> Tensor:
    """Raise unless these name rows, each at most once; returns them as int64 numbers."""
    if not isinstance(rows, Tensor) or rows.is_floating_point() or rows.is_complex():
        got = rows.dtype if isinstance(rows, Tensor) else type(rows).__name__
        raise TypeError(f"rows must be an integer tensor or a bool mask; got {got}")
    if rows.dim() != 1 or (rows.dtype == torch.bool and rows.shape[0] != num_rows):
        raise ValueError(
            f"rows must be one-dimensional, as a mask with {num_rows} entries; "
            f"got shape {tuple(rows.shape)}"
        )
    if rows.dtype == torch.bool:
        return rows.nonzero().flatten()
    if rows.numel() == 0:
        return rows.long()
    if int(rows.min()) < 0 or int(rows.max()) >= num_rows:
        raise ValueError(
            f"rows must lie in 0..{num_rows - 1}; got {int(rows.min())}..{int(rows.max())}"
        )
    if bool((rows.sort().values.diff() == 0).any()):
        raise ValueError("rows names a row more than once: give each once (rows.unique())")
    return rows.long()


def _rows_of(indptr: Tensor) -> Tensor:
    """The row of each entry of a CSR matrix."""
    rows = torch.arange(len(indptr) - 1, dtype=indptr.dtype, device=indptr.device)
    return rows.repeat_interleave(indptr.diff())


def _transposed(indptr: Indices, indices: Indices, columns: int) -> tuple[Indices, ...]:
    """Pointers, rows and entry numbers of a CSR matrix in column order, in linear time."""
    entry = np.arange(len(indices), dtype=indices.dtype)
    by_column = csr_array((entry, indices, indptr), shape=(len(indptr) - 1, columns)).tocsc()
    return tuple(
        part.astype(indices.dtype, copy=False)
        for part in (by_column.indptr, by_column.indices, by_column.data)
    )


def _transpose(
    indptr: Tensor, indices: Tensor, columns: int, value: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The fields `t_indptr`, `t_indices`, `t_edge`, `t_value`."""
    arrays = _transposed(indptr.cpu().numpy(), indices.cpu().numpy(), columns)
    t_indptr, t_indices, t_edge = (torch.from_numpy(array).to(indices) for array in arrays)
    return t_indptr, t_indices, t_edge, value[t_edge]


def _parallel_rank(indptr: Tensor, indices: Tensor) -> Tensor | None:
    """How many earlier edges have the same ends; None where no edge has."""
    same = torch.zeros(len(indices), dtype=torch.bool)
    same[1:] = indices[1:] == indices[:-1]
    starts = indptr[:-1]
    same[starts[starts < len(indices)].long()] = False  # the first edge of a row
    if not bool(same.any()):
        return None
    number = torch.arange(len(indices), dtype=indices.dtype)
    first = torch.where(same, 0, number).cummax(0).values
    return (number - first).to(torch.int32)


def _chunks(indptr: Tensor) -> Tensor:
    rows = len(indptr) - 1
    work = indptr.long() + torch.arange(rows + 1, device=indptr.device)
    share = torch.arange(CHUNKS + 1, device=indptr.device) * (int(work[-1]) / CHUNKS)
    bounds = torch.searchsorted(work, share.floor().long())
    bounds[0], bounds[-1] = 0, rows
    return bounds


def _normalised_weights(
    kind: Normalisation, indptr: Tensor, indices: Tensor, weight: Tensor
) -> Tensor:
    """The entries of the normalised matrix, worked out in float64."""
    if kind is Normalisation.NONE:
        return weight
    destination = _rows_of(indptr)
    loop = destination == indices
    summed = weight.double()
    if kind is Normalisation.PAPER:
        summed[loop] = 0.0
    total = torch.zeros(len(indptr) - 1, dtype=torch.float64, device=weight.device)
    total.index_add_(0, destination, summed)
    if kind is Normalisation.ROW:
        scale = total.reciprocal().masked_fill_(total == 0.0, 0.0)
        return (scale[destination] * weight).to(weight.dtype)
    if bool((total < 0.0).any()):
        node = int((total < 0.0).nonzero()[0])
        raise ValueError(
            f"edge_weight sums to {float(total[node]):g} at node {node}, and {kind} takes its "
            "square root: give weights whose sum is not negative, or normalisation='row'"
        )
    scale = total.pow(-0.5).masked_fill_(total == 0.0, 0.0)
    value = scale[destination].mul_(scale[indices]).mul_(weight)
    if kind is Normalisation.PAPER:
        value = torch.where(loop, weight.double(), value)
    return value.to(weight.dtype)
