"""The class posterior equals the one that brute force finds in the generating model."""

from itertools import product

import numpy as np
import pytest
import torch

from experiments.block_posterior import class_posterior
from graphdrop.data.synthetic import SyntheticGraph, synthetic_graph


def tiny_graph(num_nodes: int = 6, num_classes: int = 3, **options: float) -> SyntheticGraph:
    arguments = {
        "average_degree": 1.5,
        "homophily": 0.75,
        "num_features": 8,
        "words_per_node": 2,
        "feature_signal": 0.3,
        "balanced": False,
    }
    return synthetic_graph(num_nodes, num_classes, **(arguments | options))


def observe(graph: SyntheticGraph, count: int) -> torch.Tensor:
    return torch.arange(len(graph.data.y)) < count


def joint_probability(graph: SyntheticGraph, labels: tuple[int, ...]) -> float:
    """The product of all Bernoulli and categorical probabilities, one by one."""
    edges = set(map(tuple, graph.data.edge_index.T.tolist()))
    theta, affinity = graph.propensity, graph.affinity
    result = 1.0
    for u, label in enumerate(labels):
        result *= float(graph.class_prior[label])
        for f in range(graph.data.x.shape[1]):
            present = 1 - np.exp(-float(graph.word_rate[label, f]))
            result *= present if graph.data.x[u, f] else 1 - present
        for v in range(u):
            present = 1 - np.exp(-float(theta[u] * theta[v] * affinity[label, labels[v]]))
            result *= present if (u, v) in edges else 1 - present
    return result


def brute_force_posterior(graph: SyntheticGraph, observed: torch.Tensor) -> torch.Tensor:
    num_classes = len(graph.class_prior)
    choices = [
        [label] if known else range(num_classes)
        for label, known in zip(graph.data.y.tolist(), observed.tolist(), strict=True)
    ]
    total = torch.zeros(len(choices), num_classes, dtype=torch.double)
    for labels in product(*choices):
        total[range(len(choices)), labels] += joint_probability(graph, labels)
    return total / total.sum(dim=1, keepdim=True)


@pytest.mark.parametrize(("seed", "known"), [(0, 0), (1, 0), (2, 2), (3, 2)])
def test_enumeration_equals_brute_force(seed, known):
    graph = tiny_graph(seed=seed)
    observed = observe(graph, known)
    expected = brute_force_posterior(graph, observed)
    assert graph.data.edge_index.numel()
    torch.testing.assert_close(class_posterior(graph, observed, "exact"), expected)


@pytest.mark.parametrize("homophily", [0.0, 1.0])
def test_enumeration_equals_brute_force_where_some_edges_are_impossible(homophily):
    graph = tiny_graph(5, average_degree=1, homophily=homophily, balanced=True, seed=3)
    observed = observe(graph, 1)
    assert graph.data.edge_index.numel()
    expected = brute_force_posterior(graph, observed)
    assert (expected == 0).any()
    torch.testing.assert_close(class_posterior(graph, observed, "exact"), expected)


@pytest.mark.parametrize("seed", range(3))
def test_gibbs_agrees_with_enumeration(seed):
    graph = tiny_graph(12, average_degree=2.5, seed=seed)
    observed = observe(graph, 3)
    exact = class_posterior(graph, observed, "exact")
    sampled = class_posterior(graph, observed, "gibbs", sweeps=4000, seed=seed)
    assert (exact - sampled).abs().max() < 0.015
    # The agreement is not that of two certainties.
    assert exact[~observed].max(dim=1).values.min() < 0.8


def test_the_gibbs_posterior_of_a_cora_sized_graph_is_calibrated():
    graph = synthetic_graph(feature_signal=0.15)
    observed = observe(graph, 140)
    posterior = class_posterior(graph, observed)[~observed]
    confidence, predicted = posterior.max(dim=1)
    correct = (predicted == graph.data.y[~observed]).double()
    # Under its own model a posterior is right as often as it says: here, and among the doubtful.
    assert float(confidence.mean()) == pytest.approx(float(correct.mean()), abs=0.02)
    doubtful = confidence < 0.8
    assert doubtful.sum() > 300
    expected = float(confidence[doubtful].mean())
    assert float(correct[doubtful].mean()) == pytest.approx(expected, abs=0.08)
    assert float(correct.mean()) > 0.8


@pytest.mark.parametrize("method", ["exact", "gibbs"])
def test_observed_nodes_are_certain_and_rows_are_distributions(method):
    graph = tiny_graph(8)
    observed = observe(graph, 5)
    posterior = class_posterior(graph, observed, method)
    assert torch.equal(posterior[observed].argmax(dim=1), graph.data.y[observed])
    assert (posterior[observed].max(dim=1).values == 1).all()
    torch.testing.assert_close(posterior.sum(dim=1), torch.ones(8).double())
    everything = class_posterior(graph, torch.ones(8, dtype=torch.bool), method)
    assert torch.equal(everything.argmax(dim=1), graph.data.y)


def test_sparse_features_give_the_same_posterior():
    dense, sparse = tiny_graph(sparse=False), tiny_graph(sparse=True)
    observed = observe(dense, 2)
    torch.testing.assert_close(class_posterior(dense, observed), class_posterior(sparse, observed))


def test_words_that_are_nearly_certain_do_not_overflow():
    graph = tiny_graph(20, num_features=2000, words_per_node=1000, feature_signal=1.0)
    assert graph.word_rate.max() > 710  # where exp overflows
    posterior = class_posterior(graph, observe(graph, 10))
    assert torch.equal(posterior.argmax(dim=1), graph.data.y)


def test_gibbs_refuses_a_model_in_which_it_cannot_move():
    graph = tiny_graph(homophily=1.0)
    with pytest.raises(ValueError, match=r"affinity has a zero.*enumerate"):
        class_posterior(graph, observe(graph, 2), "gibbs")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "exact"}, "90 unknown nodes with 7 classes have more than"),
        ({"method": "best"}, "method is 'best': give 'auto', 'exact' or 'gibbs'"),
        ({"sweeps": 0}, "sweeps is 0: give 1 or more"),
        ({"burn_in": -1}, "burn_in is -1"),
        ({"chains": 0}, "chains is 0"),
        ({"observed": torch.arange(3)}, r"observed has shape \(3,\) and type torch.int64"),
    ],
)
def test_a_posterior_that_cannot_be_computed_says_why(arguments, message):
    graph = synthetic_graph(100)
    with pytest.raises(ValueError, match=message):
        class_posterior(graph, **({"observed": observe(graph, 10)} | arguments))
