"""Smoothness measures and the spectral radius against their dense definitions, and by hand."""

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_distances

from graphdrop.metrics import (
    adjacency,
    dirichlet_energy,
    mean_average_distance,
    smoothing,
    spectral_radius,
    total_variation,
)

MEASURES = {
    "total variation": total_variation,
    "dirichlet energy": dirichlet_energy,
    "mean average distance": mean_average_distance,
}
TRIANGLE = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])


def _random_graph(directed: bool = False, nodes: int = 90, features: int = 150):
    graph = nx.fast_gnp_random_graph(nodes, 0.06, seed=0, directed=directed).to_directed()
    edges = torch.tensor(list(graph.edges)).T
    generator = torch.Generator().manual_seed(0)
    return torch.randn(nodes, features, generator=generator).double(), edges


def _dense(edges: torch.Tensor, nodes: int) -> np.ndarray:
    matrix = np.zeros((nodes, nodes))
    for source, destination in edges.T.tolist():
        matrix[destination, source] += 1
    return matrix


@pytest.mark.parametrize("directed", [False, True])
def test_total_variation_is_its_dense_definition(directed):
    signal, edges = _random_graph(directed)
    x, A = signal.numpy(), _dense(edges, 90)
    largest = np.abs(np.linalg.eigvals(A)).max()
    per_feature = [np.linalg.norm(x[:, i] - A @ x[:, i] / largest) ** 2 for i in range(150)]
    expected = sum(per_feature) / np.linalg.norm(x) ** 2
    assert total_variation(signal, edges).item() == pytest.approx(expected, rel=1e-9)


def test_a_known_radius_is_used_as_it_is():
    signal = torch.tensor([[1.0], [0.0], [0.0]])
    assert total_variation(signal, TRIANGLE, radius=1.0).item() == pytest.approx(3.0)
    with pytest.raises(ValueError, match="radius is 0"):
        total_variation(signal, TRIANGLE, radius=0.0)


def test_dirichlet_energy_is_the_trace_with_the_augmented_laplacian():
    signal, edges = _random_graph()
    x, A = signal.numpy(), _dense(edges, 90)
    scale = np.diag((A.sum(1) + 1) ** -0.5)
    laplacian = np.eye(90) - scale @ (A + np.eye(90)) @ scale
    expected = np.trace(x.T @ laplacian @ x)
    assert dirichlet_energy(signal, edges).item() == pytest.approx(expected, rel=1e-9)


def test_mean_average_distance_is_scikit_learns_cosine_distance_between_neighbours():
    signal, edges = _random_graph(directed=True)
    distance, A = cosine_distances(signal.numpy()), _dense(edges, 90)
    rows = [(A[v] * distance[v]).sum() / A[v].sum() for v in range(90) if A[v].sum()]
    assert mean_average_distance(signal, edges).item() == pytest.approx(np.mean(rows), rel=1e-9)


def test_mean_average_distance_of_parallel_opposite_and_orthogonal_rows():
    pair = torch.tensor([[0, 1], [1, 0]])
    for rows, distance in [
        ([[1.0, 2.0], [3.0, 6.0]], 0.0),
        ([[1.0, 2.0], [-1.0, -2.0]], 2.0),
        ([[1.0, 0.0], [0.0, 5.0]], 1.0),
        ([[0.0, 0.0], [0.0, 0.0]], 0.0),
        ([[0.0, 0.0], [1.0, 1.0]], 1.0),
        ([[1e-300, 0.0], [0.0, 1e-300]], 1.0),
    ]:
        signal = torch.tensor(rows, dtype=torch.float64)
        assert mean_average_distance(signal, pair).item() == pytest.approx(distance, abs=1e-15)


@pytest.mark.parametrize("name", ["dirichlet energy", "mean average distance"])
def test_self_loops_are_left_out(name):
    measure = MEASURES[name]
    signal, edges = _random_graph()
    loops = torch.arange(90).repeat(2, 1)
    with_loops = torch.cat([edges, loops], dim=1)
    torch.testing.assert_close(measure(signal, with_loops), measure(signal, edges))


@pytest.mark.parametrize("name", MEASURES)
def test_the_names_of_the_nodes_and_the_type_of_the_signal_do_not_matter(name):
    measure = MEASURES[name]
    signal, edges = _random_graph(directed=True)
    order = torch.randperm(90, generator=torch.Generator().manual_seed(1))
    renamed = torch.empty_like(signal)
    renamed[order] = signal
    shuffle = torch.randperm(edges.size(1), generator=torch.Generator().manual_seed(2))
    expected = measure(signal, edges)
    found = measure(renamed, order[edges[:, shuffle]])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=0)
    single = signal.float().requires_grad_()
    torch.testing.assert_close(measure(single, edges), expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", MEASURES)
def test_working_in_parts_changes_nothing(name, monkeypatch):
    measure = MEASURES[name]
    signal, edges = _random_graph()
    whole = measure(signal, edges)
    monkeypatch.setattr(smoothing, "_COLUMNS_AT_A_TIME", 7)
    monkeypatch.setattr(smoothing, "_NUMBERS_AT_A_TIME", 1000)
    torch.testing.assert_close(measure(signal, edges), whole, rtol=1e-12, atol=0)


def test_total_variation_of_a_dead_layer_is_undefined():
    assert total_variation(torch.zeros(3, 2), TRIANGLE).isnan()


BAD_SIGNALS = [
    (torch.ones(3), "signal has shape \\(3,\\)"),
    (torch.empty(3, 0), "signal has shape \\(3, 0\\)"),
    (torch.tensor([[1.0], [float("nan")], [0.0]]), "NaN"),
    (torch.ones(2, 1), "edge_index ranges from 0 to 2, but with 2 nodes"),
]


@pytest.mark.parametrize("name", MEASURES)
def test_bad_signals_are_named(name):
    for signal, message in BAD_SIGNALS:
        with pytest.raises(ValueError, match=message):
            MEASURES[name](signal, TRIANGLE)


def test_graphs_that_have_no_answer_are_named():
    chain = torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(ValueError, match="has no cycle"):
        total_variation(torch.ones(3, 1), chain)
    with pytest.raises(ValueError, match="no edge between two different nodes"):
        mean_average_distance(torch.ones(3, 1), torch.tensor([[0], [0]]))


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
        (nx.path_graph(150), 2 * np.cos(np.pi / 151)),
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
@settings(max_examples=30, deadline=None)
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
