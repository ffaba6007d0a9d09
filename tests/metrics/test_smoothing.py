"""Smoothness measures against their dense definitions, by hand, and at their fixed points."""

import math

import networkx as nx
import numpy as np
import pytest
import torch
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


def test_total_variation_by_hand():
    # On a triangle |lambda_max| = 2; x = (1, 0, 0) gives x - A x / 2 = (1, -1/2, -1/2).
    signal = torch.tensor([[1.0], [0.0], [0.0]])
    assert total_variation(signal, TRIANGLE).item() == pytest.approx(1.5)


def test_total_variation_of_the_leading_eigenvector_is_zero_at_any_scale():
    _, edges = _random_graph()
    values, vectors = np.linalg.eigh(_dense(edges, 90))
    signal = torch.from_numpy(vectors[:, [-1]] * 1e3)
    assert total_variation(signal, edges).item() < 1e-12
    assert values[-1] == pytest.approx(spectral_radius(adjacency(edges, 90)), rel=1e-9)


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


def test_dirichlet_energy_by_hand():
    # One edge from 0 to 1: d = (0, 1), so 1/2 * (3 / 1 - 1 / sqrt(2))^2.
    found = dirichlet_energy(torch.tensor([[3.0], [1.0]]), torch.tensor([[0], [1]])).item()
    assert found == pytest.approx((3 - 1 / math.sqrt(2)) ** 2 / 2)


def test_dirichlet_energy_resolves_what_is_almost_smooth():
    _, edges = _random_graph()
    degree = _dense(edges, 90).sum(1)
    smooth = torch.from_numpy(np.sqrt(1 + degree))[:, None]
    assert dirichlet_energy(smooth, edges).item() < 1e-28
    bumped = smooth.clone()
    bumped[0] += 1e-9
    expected = 1e-18 * degree[0] / (1 + degree[0])
    assert dirichlet_energy(bumped, edges).item() == pytest.approx(expected, rel=1e-3)


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


def test_nodes_without_neighbours_do_not_dilute_the_distance():
    signal = torch.eye(4)
    assert mean_average_distance(signal, torch.tensor([[0, 1], [1, 0]])).item() == 1.0


@pytest.mark.parametrize("name", ["dirichlet energy", "mean average distance"])
def test_self_loops_are_left_out(name):
    measure = MEASURES[name]
    signal, edges = _random_graph()
    loops = torch.arange(90).repeat(2, 1)
    with_loops = torch.cat([edges, loops], dim=1)
    torch.testing.assert_close(measure(signal, with_loops), measure(signal, edges))


@pytest.mark.parametrize(
    ("name", "directed"), [*((name, True) for name in MEASURES), ("total variation", False)]
)
def test_the_names_of_the_nodes_do_not_matter(name, directed):
    measure = MEASURES[name]
    signal, edges = _random_graph(directed)
    order = torch.randperm(90, generator=torch.Generator().manual_seed(1))
    renamed = torch.empty_like(signal)
    renamed[order] = signal
    shuffle = torch.randperm(edges.size(1), generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(
        measure(renamed, order[edges[:, shuffle]]), measure(signal, edges), rtol=1e-9, atol=0
    )


@pytest.mark.parametrize(
    ("name", "power"),
    [("total variation", 0), ("dirichlet energy", 2), ("mean average distance", 0)],
)
def test_what_the_scale_of_the_signal_does(name, power):
    measure = MEASURES[name]
    signal, edges = _random_graph()
    ratio = (measure(10 * signal, edges) / measure(signal, edges)).item()
    assert ratio == pytest.approx(10**power)


@pytest.mark.parametrize("name", MEASURES)
def test_working_in_parts_changes_nothing(name, monkeypatch):
    measure = MEASURES[name]
    signal, edges = _random_graph()
    whole = measure(signal, edges)
    monkeypatch.setattr(smoothing, "_COLUMNS_AT_A_TIME", 7)
    monkeypatch.setattr(smoothing, "_NUMBERS_AT_A_TIME", 1000)
    torch.testing.assert_close(measure(signal, edges), whole, rtol=1e-12, atol=0)


def test_a_signal_with_a_gradient_in_float32_is_welcome():
    signal, edges = _random_graph()
    single = signal.float().requires_grad_()
    for measure in MEASURES.values():
        torch.testing.assert_close(
            measure(single, edges), measure(signal, edges), rtol=1e-5, atol=0
        )


def test_total_variation_of_a_dead_layer_is_undefined():
    assert total_variation(torch.zeros(3, 2), TRIANGLE).isnan()


BAD_SIGNALS = [
    (torch.ones(3), "signal has shape \\(3,\\)"),
    (torch.empty(3, 0), "signal has shape \\(3, 0\\)"),
    (torch.tensor([[1.0], [float("nan")], [0.0]]), "NaN"),
    (torch.ones(2, 1), "edge_index ranges from 0 to 2, but with 2 nodes"),
]


@pytest.mark.parametrize(
    ("name", "signal", "message"),
    [
        *(("total variation", *bad) for bad in BAD_SIGNALS),
        ("dirichlet energy", *BAD_SIGNALS[2]),
        ("dirichlet energy", *BAD_SIGNALS[3]),
        ("mean average distance", *BAD_SIGNALS[0]),
        ("mean average distance", *BAD_SIGNALS[3]),
    ],
)
def test_bad_signals_are_named(name, signal, message):
    with pytest.raises(ValueError, match=message):
        MEASURES[name](signal, TRIANGLE)


def test_graphs_that_have_no_answer_are_named():
    chain = torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(ValueError, match="has no cycle"):
        total_variation(torch.ones(3, 1), chain)
    with pytest.raises(ValueError, match="no edge between two different nodes"):
        mean_average_distance(torch.ones(3, 1), torch.tensor([[0], [0]]))
