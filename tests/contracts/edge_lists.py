"""Small directed graphs as lists of edges: parallels, self-loops and isolated nodes included."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from graphdrop.graph import Graph

Test = Callable[..., None]


@dataclass(frozen=True)
class EdgeList:
    """`num_nodes` nodes and `edges` from a source to a destination, with a weight for each."""

    num_nodes: int
    edges: list[tuple[int, int]]
    weights: list[float]

    @property
    def edge_index(self) -> Tensor:
        return torch.tensor(self.edges, dtype=torch.int64).reshape(-1, 2).T

    @property
    def edge_weight(self) -> Tensor:
        return torch.tensor(self.weights)

    def graph(self, normalization: str = "sym", *, self_loops: bool = True) -> Graph:
        return Graph.from_edge_index(
            self.edge_index,
            self.num_nodes,
            self.edge_weight,
            normalization=normalization,
            self_loops=self_loops,
        )

    def dense(self) -> Tensor:
        """`A[v, u]`, the summed weight of the edges from u to v."""
        matrix = torch.zeros(self.num_nodes, self.num_nodes, dtype=torch.float64)
        for (source, destination), weight in zip(self.edges, self.weights, strict=True):
            matrix[destination, source] += weight
        return matrix


@st.composite
def edge_lists(
    draw: st.DrawFn, min_nodes: int = 1, *, parallel: bool = True, loops: bool = True
) -> EdgeList:
    """Up to 9 nodes: few enough that edges repeat, meet their reverse, and leave nodes alone."""
    num_nodes = draw(st.integers(min_nodes, 9))
    if num_nodes == 0:
        return EdgeList(0, [], [])
    node = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=30, unique=not parallel))
    if not loops:
        edges = [(source, destination) for source, destination in edges if source != destination]
    weights = [draw(st.integers(1, 16)) / 4 for _ in edges]
    return EdgeList(num_nodes, edges, weights)


def for_all(*strategies: st.SearchStrategy[object]) -> Callable[[Test], Test]:
    """`given` with enough examples for graphs this small, and no clock: machines are busy."""

    def wrap(test: Test) -> Test:
        return settings(max_examples=60, deadline=None)(given(*strategies)(test))

    return wrap


def dense(graph: Graph) -> Tensor:
    """The matrix `[num_dst, num_src]` of a graph's values, read from its CSR half."""
    matrix = torch.zeros(graph.num_dst, graph.num_src, dtype=torch.float64)
    for row in range(graph.num_dst):
        for edge in range(int(graph.indptr[row]), int(graph.indptr[row + 1])):
            matrix[row, int(graph.indices[edge])] += float(graph.value[edge])
    return matrix
