"""The adjacency is as given, and its spectral radius as dense linear algebra has it."""

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import ArpackNoConvergence

from graphdrop.metrics import adjacency, spectral_radius, spectrum


def _edges(graph) -> tuple[torch.Tensor, int]:
    """Sources and destinations of a networkx graph, undirected edges in both directions."""
    pairs = torch.tensor(list(graph.to_directed().edges), dtype=torch.long).reshape(-1, 2).T
    return pairs, graph.number_of_nodes()


def test_rows_are_destinations_and_parallel_edges_add_up():
    matrix = adjacency(torch.tensor([[0, 0, 2, 1], [1, 1, 0, 1]]), 3)
    assert matrix.toarray().tolist() == [[0, 0, 1], [2, 1, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("graph", "radius"),
    [
        (nx.complete_graph(5), 4.0),
        (nx.complete_graph(90), 89.0),
        (nx.star_graph(100), 10.0),
        (nx.path_graph(2), 1.0),
        (nx.path_graph(150), 2 * np.cos(np.pi / 151)),
        (nx.cycle_graph(200), 2.0),
        (nx.complete_bipartite_graph(60, 15), 30.0),
        (nx.disjoint_union(nx.cycle_graph(200), nx.complete_graph(4)), 3.0),
        (nx.cycle_graph(2000, create_using=nx.DiGraph), 1.0),
        (nx.path_graph(100, create_using=nx.DiGraph), 0.0),
        (nx.empty_graph(3), 0.0),
    ],
    ids=str,
)
def test_graphs_whose_radius_is_known(graph, radius):
    assert spectral_radius(adjacency(*_edges(graph))) == pytest.approx(radius, abs=1e-6)


@given(
    seed=st.integers(0, 2**20),
    nodes=st.integers(1, 120),
    degree=st.floats(0.2, 6),
    directed=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_it_is_the_dense_radius_of_random_graphs(seed, nodes, degree, directed):
    graph = nx.fast_gnp_random_graph(nodes, min(1.0, degree / nodes), seed=seed, directed=directed)
    matrix = adjacency(*_edges(graph))
    # Dense eigenvalues of a graph of long chains are only good to the n-th root of the precision,
    # so chains are taken off first, which leaves the radius as it is.
    if directed:
        graph = nx.DiGraph(
            edge
            for part in nx.strongly_connected_components(graph)
            for edge in graph.subgraph(part).edges
        )
    expected = float(np.abs(nx.adjacency_spectrum(graph)).max()) if len(graph) else 0.0
    assert spectral_radius(matrix) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_a_long_tail_does_not_disturb_a_directed_core():
    # A directed triangle that feeds a chain of 300: the chain makes the matrix far from normal.
    chain = [(i, i + 1) for i in range(2, 302)]
    edges = torch.tensor([(0, 1), (1, 2), (2, 0), *chain]).T
    assert spectral_radius(adjacency(edges, 303)) == pytest.approx(1.0, abs=1e-12)


def test_every_call_gives_the_same_bits():
    matrix = adjacency(*_edges(nx.fast_gnp_random_graph(300, 0.02, seed=1)))
    assert len({spectral_radius(matrix) for _ in range(5)}) == 1


def test_a_search_that_does_not_converge_says_what_to_do(monkeypatch):
    def give_up(*_, **__):
        raise ArpackNoConvergence("no convergence", np.empty(0), np.empty((0, 0)))

    monkeypatch.setattr(spectrum, "eigsh", give_up)
    with pytest.raises(ValueError, match="did not converge to 1e-06: pass its value as radius"):
        spectral_radius(adjacency(*_edges(nx.cycle_graph(200))))


@pytest.mark.parametrize(
    ("edge_index", "nodes", "message"),
    [
        (torch.tensor([[0, 1]]), 2, "edge_index has shape \\(1, 2\\)"),
        (torch.tensor([[0.0], [1.0]]), 2, "integers"),
        (torch.tensor([[0], [2]]), 2, "edge_index ranges from 0 to 2, but with 2 nodes"),
        (torch.tensor([[-1], [0]]), 2, "edge_index ranges from -1"),
        (torch.empty(2, 0, dtype=torch.long), 0, "num_nodes is 0"),
        ([[0], [1]], 2, "edge_index has shape"),
    ],
)
def test_bad_edges_are_named(edge_index, nodes, message):
    with pytest.raises(ValueError, match=message):
        adjacency(edge_index, nodes)
