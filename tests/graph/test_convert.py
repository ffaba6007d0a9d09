"""Graphs of PyG, scipy and networkx arrive with every edge the right way round."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data, HeteroData

from contracts.edge_lists import EdgeList, dense, edge_lists, for_all
from graphdrop.graph import Graph


def test_the_edges_and_weights_of_a_data_object_are_taken() -> None:
    edge_index = torch.tensor([[0, 2], [1, 1]])
    data = Data(x=torch.zeros(4, 1), edge_index=edge_index)
    graph = Graph.from_data(data, normalization="none")
    assert (graph.num_dst, graph.num_edges) == (4, 2)
    assert graph.weight.tolist() == [1.0, 1.0]
    data.edge_weight = torch.tensor([0.5, 2.0])
    assert Graph.from_data(data, normalization="none").weight.tolist() == [0.5, 2.0]
    assert Graph.from_data(data).num_edges == 6
    assert Graph.from_data(data, self_loops=False).num_edges == 2


@pytest.mark.parametrize("data", [Data(x=torch.zeros(2, 1)), HeteroData(), None])
def test_data_without_edges_is_refused(data: Data) -> None:
    with pytest.raises(ValueError, match=r"data is .*; it takes a PyG Data with an edge_index"):
        Graph.from_data(data)


@for_all(edge_lists())
def test_a_row_of_a_scipy_matrix_is_a_destination(edges: EdgeList) -> None:
    matrix = scipy.sparse.csr_array(edges.dense().numpy())
    assert torch.equal(dense(Graph.from_scipy(matrix, normalization="none")), edges.dense())


@pytest.mark.parametrize(
    "kind", ["coo_matrix", "csr_matrix", "csc_array", "lil_array", "dok_array"]
)
def test_any_sparse_format_and_number_type_will_do(kind: str) -> None:
    matrix = getattr(scipy.sparse, kind)(np.array([[0, 3], [0, 0]], dtype=np.int8))
    graph = Graph.from_scipy(matrix, normalization="none")
    assert (graph.edge_dst.tolist(), graph.indices.tolist()) == ([0], [1])
    assert graph.weight.tolist() == [3.0]
    assert Graph.from_scipy(matrix.astype(bool)).num_edges == 3


def test_stored_entries_are_edges_even_when_zero_or_repeated() -> None:
    matrix = scipy.sparse.coo_array(([0.0, 1.0, 2.0], ([0, 1, 1], [1, 0, 0])), shape=(2, 2))
    graph = Graph.from_scipy(matrix, normalization="none")
    assert graph.weight.tolist() == [0.0, 1.0, 2.0]
    assert graph.rank is not None
    assert graph.rank.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("matrix", "error", "message"),
    [
        (np.eye(2), TypeError, "matrix is of type ndarray; it takes a scipy sparse matrix"),
        (
            scipy.sparse.coo_array((2, 3)),
            ValueError,
            r"matrix has shape \(2, 3\); it takes a square",
        ),
        (scipy.sparse.coo_array((2, 2), dtype=complex), TypeError, "matrix has dtype complex128"),
    ],
)
def test_what_is_not_an_adjacency_matrix_is_refused(
    matrix: scipy.sparse.sparray, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Graph.from_scipy(matrix)


@for_all(edge_lists(parallel=False))
def test_a_directed_networkx_graph_keeps_its_directions(edges: EdgeList) -> None:
    network = nx.DiGraph()
    network.add_nodes_from(range(edges.num_nodes))
    for (source, destination), weight in zip(edges.edges, edges.weights, strict=True):
        network.add_edge(source, destination, weight=weight)
    assert torch.equal(dense(Graph.from_networkx(network, normalization="none")), edges.dense())


def test_an_undirected_networkx_graph_goes_both_ways_and_its_loops_once() -> None:
    network = nx.Graph([("b", "a"), ("a", "a")])
    network.add_edge("a", "c", weight=3.0)
    graph = Graph.from_networkx(network, normalization="none")  # nodes in the order b, a, c
    assert dense(graph).tolist() == [[0.0, 1.0, 0.0], [1.0, 1.0, 3.0], [0.0, 3.0, 0.0]]
    assert graph.num_edges == 5


def test_what_networkx_cannot_weigh_is_refused() -> None:
    network = nx.DiGraph()
    network.add_edge(0, 1, weight="heavy")
    with pytest.raises(ValueError, match="weight names the edge attribute 'weight'"):
        Graph.from_networkx(network)
    with pytest.raises(TypeError, match="graph is of type dict; it takes a networkx graph"):
        Graph.from_networkx({})
