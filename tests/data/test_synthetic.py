"""The generator draws from the model it states, has the statistics it was asked for, and scales."""

import numpy as np
import pytest
import torch

from graphdrop.data import synthetic
from graphdrop.data.synthetic import SyntheticGraph, synthetic_graph


def homophily_of(graph: SyntheticGraph) -> float:
    source, target = graph.data.edge_index
    return float((graph.data.y[source] == graph.data.y[target]).double().mean())


def average_degree_of(graph: SyntheticGraph) -> float:
    return graph.data.edge_index.shape[1] / len(graph.data.y)


def degrees_of(graph: SyntheticGraph) -> torch.Tensor:
    return torch.bincount(graph.data.edge_index[0], minlength=len(graph.data.y)).double()


def test_the_default_graph_has_the_shape_of_cora():
    graph = synthetic_graph()
    data = graph.data
    assert data.x.shape == (2708, 1433)
    assert data.y.unique().tolist() == list(range(7))
    assert data.edge_index.shape[1] / 2 == pytest.approx(5278, rel=0.05)
    assert homophily_of(graph) == pytest.approx(0.81, abs=0.02)
    assert float(data.x.sum(dim=1).mean()) == pytest.approx(18.17, rel=0.03)
    assert data.x.unique().tolist() == [0, 1]
    sizes = torch.bincount(data.y).double()
    cora = torch.tensor([818, 426, 418, 351, 298, 217, 180]).double()
    assert ((sizes - cora).abs() < 4 * cora.sqrt()).all()
    assert 50 < degrees_of(graph).max() < 400


def test_edges_are_symmetric_sorted_and_without_duplicates_or_self_loops():
    source, target = synthetic_graph(500, average_degree=20).data.edge_index
    forward, backward = source * 500 + target, target * 500 + source
    assert (forward[1:] > forward[:-1]).all()
    assert torch.equal(forward, backward.sort().values)
    assert (source != target).all()


@pytest.mark.parametrize("num_nodes", [30, 400])
def test_affinities_meet_degree_and_homophily_exactly_in_expectation(num_nodes):
    graph = synthetic_graph(num_nodes, 3, average_degree=5, homophily=0.7, balanced=False)
    first, second = torch.triu_indices(num_nodes, num_nodes, offset=1)
    product = graph.propensity[first] * graph.propensity[second]
    present = 1 - torch.exp(-product[:, None, None] * graph.affinity)
    weighted = present.sum(dim=0) * torch.outer(graph.class_prior, graph.class_prior)
    assert float(weighted.sum()) * 2 / num_nodes == pytest.approx(5, rel=1e-3)
    assert float(weighted.trace() / weighted.sum()) == pytest.approx(0.7, rel=1e-3)


def test_every_edge_is_an_independent_bernoulli_with_the_stated_probability():
    labels = np.array([0, 0, 0, 1, 1, 2])
    propensity = np.array([2.0, 1.0, 0.5, 1.5, 0.7, 0.3])
    affinity = np.array([[0.9, 0.3, 0.3], [0.3, 1.2, 0.3], [0.3, 0.3, 2.0]])
    trials = 5000
    first, second = np.triu_indices(6, k=1)
    seen = np.zeros((trials, 6, 6))
    generator = np.random.default_rng(0)
    for trial in seen:
        trial[tuple(synthetic._edges(generator, labels, propensity, affinity).numpy())] = 1
    seen = seen[:, first, second]
    rates = propensity[first] * propensity[second] * affinity[labels[first], labels[second]]
    expected = 1 - np.exp(-rates)
    deviation = np.sqrt(expected * (1 - expected) / trials)
    assert (np.abs(seen.mean(axis=0) - expected) < 4.5 * deviation).all()
    correlation = np.corrcoef(seen.T) - np.eye(len(first))
    assert np.abs(correlation).max() < 4.5 / np.sqrt(trials)


def test_every_word_is_an_independent_bernoulli_with_the_stated_probability():
    graph = synthetic_graph(
        20_000, 2, num_features=12, words_per_node=4, feature_signal=0.7, balanced=True
    )
    for label in (0, 1):
        x = graph.data.x[graph.data.y == label].double()
        expected = graph.word_probability[label]
        deviation = (expected * (1 - expected) / len(x)).sqrt()
        assert ((x.mean(dim=0) - expected).abs() < 4.5 * deviation).all()
        correlation = torch.corrcoef(x.T) - torch.eye(12)
        assert correlation.abs().max() < 4.5 / len(x) ** 0.5
    assert (graph.word_probability[0] - graph.word_probability[1]).abs().max() > 0.1
    assert graph.word_probability.sum(dim=1) == pytest.approx([4, 4])


def test_classes_are_balanced_or_follow_coras_sizes_at_any_number():
    assert (
        synthetic_graph(10, 4, average_degree=1, balanced=True).class_prior.tolist() == [0.25] * 4
    )
    ten = synthetic_graph(10, 10, average_degree=1).class_prior
    assert float(ten.sum()) == pytest.approx(1)
    assert float(ten[0] / ten[-1]) == pytest.approx(818 / 180)
    assert (ten.diff() < 0).all()


def same(first: SyntheticGraph, second: SyntheticGraph, *names: str) -> bool:
    return all(torch.equal(first.data[name], second.data[name]) for name in names)


def test_a_graph_is_a_function_of_its_arguments():
    first = synthetic_graph(300, seed=4)
    torch.manual_seed(1)
    np.random.seed(1)
    assert same(first, synthetic_graph(300, seed=4), "x", "edge_index", "y")
    other = synthetic_graph(300, seed=5)
    assert not same(first, other, "y")
    assert not torch.equal(first.propensity, other.propensity)


def test_sparse_and_dense_features_are_the_same_matrix():
    dense, sparse = synthetic_graph(300, sparse=False), synthetic_graph(300, sparse=True)
    assert sparse.data.x.layout == torch.sparse_csr
    assert torch.equal(sparse.data.x.to_dense(), dense.data.x)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_nodes": 1}, "num_nodes is 1: give 2 or more nodes"),
        ({"num_nodes": 10.5}, "num_nodes is 10.5"),
        ({"num_classes": 1}, "num_classes is 1"),
        ({"average_degree": 0}, "average_degree is 0: give a positive number"),
        ({"average_degree": float("inf")}, "average_degree is inf"),
        ({"homophily": 1.1}, "homophily is 1.1: give a fraction between 0 and 1"),
        ({"homophily": float("nan")}, "homophily is nan"),
        ({"homophily": 0.05}, r"homophily is 0.05: .* only from 0.12\d up.*balanced=True"),
        ({"num_features": 0}, "num_features is 0"),
        ({"words_per_node": 0}, "words_per_node is 0"),
        ({"words_per_node": 800}, "words_per_node is 800: .* half of num_features=1433"),
        ({"feature_signal": -0.1}, "feature_signal is -0.1"),
        ({"degree_exponent": 2.0}, "degree_exponent is 2.0"),
        ({"seed": -1}, "seed is -1"),
        (
            {"num_nodes": 20, "average_degree": 15},
            "average_degree is 15 .* too many edges between nodes of the same class",
        ),
        (
            {"num_nodes": 20, "average_degree": 18, "homophily": 0.1, "balanced": True},
            "too many edges between nodes of different classes for num_nodes=20",
        ),
    ],
)
def test_parameters_that_cannot_be_met_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        synthetic_graph(**arguments)
