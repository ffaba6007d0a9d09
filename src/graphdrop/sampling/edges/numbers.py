"""What is known of the edges of a graph, as one row of numbers per edge.

Every number has the same meaning on every graph: rates that depend on them carry over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from graphdrop.graph import Graph
from graphdrop.sampling.edges.features import adjacency, row_products

COSINE, COMMON = "cosine", "common neighbours"
SMALLER, LARGER = "smaller degree", "larger degree"
AGREEMENT, WEIGHT = "agreement", "edge weight"
OF_GRAPHS = (COSINE, COMMON, SMALLER, LARGER, AGREEMENT, WEIGHT)
"""The numbers that a graph and the features of its nodes give."""

MOST_TYPES = 64
"""The largest number of edge types that become columns."""
LEAST_AGREEMENT = 1e-3
Float = NDArray[np.float64]


def describe_graph(graph: Graph, unit: csr_array | None, posterior: Tensor | None) -> Tensor:
    """The numbers ``OF_GRAPHS`` of every edge, ``[E, 6]`` float64, in CSR order.

    The cosine of the features of both ends; ``log(1 + c)`` of the neighbours that they have in
    common; ``log(1 + d)`` of the number of neighbours, of the end with fewer and of the end with
    more; the logarithm of the probability that both ends are of one class over what chance gives;
    the logarithm of the edge weight. Directions do not matter, nor do self-loops and repetitions.

    Args:
        graph: a whole graph.
        unit: features with rows of length 1, or ``None`` for no features: the cosine is 0.
        posterior: probabilities ``[nodes, classes + 1]`` of the classes of every node from its
            features alone, and in the last row ``[classes]`` of every class; or ``None``.
    """
    destination, source = (
        ends.cpu().numpy().astype(np.int64) for ends in (graph.edge_dst, graph.indices)
    )
    between = destination != source
    low, high = np.minimum(destination, source), np.maximum(destination, source)
    pairs, pair_of = np.unique(low[between] * graph.num_dst + high[between], return_inverse=True)
    ends = pairs // graph.num_dst, pairs % graph.num_dst  # each once, not in both directions
    neighbours = adjacency(np.concatenate(ends), np.concatenate(ends[::-1]), graph.num_dst)
    degree = np.diff(neighbours.indptr).astype(np.float64)
    numbers = np.zeros((len(destination), len(OF_GRAPHS)))
    columns: dict[str, Float] = {
        COMMON: np.log1p(row_products(neighbours, *ends)),
        SMALLER: np.log1p(np.minimum(degree[ends[0]], degree[ends[1]])),
        LARGER: np.log1p(np.maximum(degree[ends[0]], degree[ends[1]])),
    }
    if unit is not None:
        columns[COSINE] = row_products(unit, *ends)
    if posterior is not None:
        shares, chance = posterior[:-1].numpy(), posterior[-1].numpy()
        together = np.einsum("ec,ec->e", shares[ends[0]] / chance, shares[ends[1]])
        columns[AGREEMENT] = np.log(np.maximum(together, LEAST_AGREEMENT))
    for name, column in columns.items():
        numbers[between, OF_GRAPHS.index(name)] = column[pair_of]
    weight = graph.weight.double().cpu().numpy()[between]
    positive = bool(len(weight)) and weight.min() > 0.0
    numbers[between, OF_GRAPHS.index(WEIGHT)] = np.log(weight) if positive else weight
    return torch.from_numpy(numbers)


def columns_of(data: Any, named: Mapping[str, Any] | None, edges: int) -> dict[str, Tensor]:
    """Further numbers of the edges of a PyG ``Data``, in the order of its ``edge_index``.

    ``edge_attr`` gives its columns, ``edge_type`` one of 0 and 1 for every type.

    Args:
        data: the graph.
        named: columns of the user's, ``[E]`` each; they replace those of the graph of that name.
        edges: the number of edges.
    """
    found: dict[str, Tensor] = {}
    given, types = getattr(data, "edge_attr", None), getattr(data, "edge_type", None)
    if given is not None:
        table = torch.as_tensor(given).double().reshape(edges, -1)
        found |= {f"edge_attr {i}": column for i, column in enumerate(table.unbind(1))}
    if types is not None:
        found |= {f"edge_type {i}": (types == i).double() for i in _types(types)}
    for name, column in (named or {}).items():
        found[name] = torch.as_tensor(column).double().flatten()
    for name, column in found.items():
        if len(column) != edges:
            raise ValueError(
                f"columns[{name!r}] has {len(column)} values; it takes one for each of the "
                f"{edges} edges of edge_index. Give it in the order of edge_index."
            )
        if not bool(column.isfinite().all()):
            raise ValueError(
                f"columns[{name!r}] has values that are not finite; it takes finite numbers. "
                "Fill them in."
            )
    return found


def distinct_edges(edge_index: Tensor, keep: Tensor) -> Tensor:
    """The numbers of edges, one of those that join the same two nodes with the same rate."""
    low, high = edge_index.cpu().sort(0).values.numpy()
    key = np.stack([low, high, keep.double().numpy().round(6)], 1)
    return torch.from_numpy(np.sort(np.unique(key, axis=0, return_index=True)[1]))


def _types(types: Tensor) -> list[int]:
    kinds: list[int] = torch.unique(types).tolist()
    if len(kinds) > MOST_TYPES:
        raise ValueError(
            f"edge_type has {len(kinds)} values; it takes at most {MOST_TYPES}. Join the rare ones."
        )
    return kinds


@dataclass(frozen=True)
class EdgeOrder:
    """The places of a list of edges in a graph that was built from it."""

    edge_index: Tensor
    graph: Graph

    def to_graph(self, columns: Tensor) -> Tensor:
        """Rows in the order of ``edge_index`` to rows in CSR order; self-loops get 0."""
        out = columns.new_zeros(self.graph.num_edges, *columns.shape[1:])
        given, position = self._places()
        out[position] = columns[given]
        return out

    def to_list(self, rows: Tensor, loops: float) -> Tensor:
        """Rows in CSR order to rows in the order of ``edge_index``; self-loops get a constant."""
        out = rows.new_full((self.edge_index.shape[1], *rows.shape[1:]), loops)
        given, position = self._places()
        out[given] = rows[position]
        return out

    def _places(self) -> tuple[Tensor, Tensor]:
        source, destination = self.edge_index.cpu().numpy()
        given = np.flatnonzero(source != destination)
        order = given[np.lexsort((source[given], destination[given]))]
        return torch.from_numpy(order), (~self.graph.self_loop.cpu()).nonzero().flatten()
