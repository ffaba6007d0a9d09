"""describe_edges says of every edge what its definition says, and costs little."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import random_array
from torch import Tensor

from contracts.dense_layers import TOWN, connections
from contracts.masked_sums import normal
from graphdrop.graph import Graph
from graphdrop.nn import GCN
from graphdrop.nn.features import SparseFeatures
from graphdrop.sampling.edges import EDGE_FEATURES, describe_edges
from graphdrop.sampling.edges import features as edge_features
from graphdrop.sampling.rates import AmortizedRate
from graphdrop.sampling.samplers import DropEdge

X = normal(TOWN.num_nodes, 4, seed=1) * (normal(TOWN.num_nodes, 4, seed=2) > 0)
X[3] = 0.0  # a node without features


def test_every_number_is_what_its_definition_says() -> None:
    listed = connections(TOWN)
    read = [
        {c.source for c in listed if c.destination == node and not c.is_loop}
        for node in range(TOWN.num_nodes)
    ]
    described = describe_edges(TOWN.graph(), X)
    assert described.shape == (len(listed), EDGE_FEATURES)
    for row, (v, u, _, _) in zip(described.tolist(), listed, strict=True):
        common, together = len(read[v] & read[u]), len(read[v] | read[u])
        size = float(X[v].norm() * X[u].norm())
        assert row[:6] == pytest.approx(
            [
                math.log(1 + len(read[v])),
                math.log(1 + len(read[u])),
                math.log(1 + common),
                common / together if together else 0.0,
                float(X[v] @ X[u]) / size if size else 0.0,
                float(v == u),
            ],
            abs=1e-6,
        )


def test_the_sketch_of_an_end_keeps_the_angles_between_features() -> None:
    x = normal(400, 50, seed=3)
    loops = Graph.from_edge_index(torch.zeros(2, 0, dtype=torch.int64), 400)
    sketch = describe_edges(loops, x)[:, 6:]
    destination, source = sketch.chunk(2, 1)
    assert torch.equal(destination, source)
    cosine = torch.nn.functional.normalize(x) @ torch.nn.functional.normalize(x).T
    size = sketch.shape[1] // 2
    error = destination @ destination.T / size - cosine
    # the mean of products of normal numbers: variance (1 + cosine^2) / size
    assert abs(float(error.mean())) < 0.02
    assert float(error.square().mean()) == pytest.approx(1.0 / size, rel=0.2)


def test_the_sketch_ignores_the_length_of_features() -> None:
    one, other = (describe_edges(TOWN.graph(), x) for x in (X, 7.0 * X))
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("form", ["sparse", "coo", "float64"])
def test_features_may_come_in_any_form(form: str) -> None:
    x: Tensor | Graph = {
        "sparse": SparseFeatures.from_tensor(X).matrix,
        "coo": X.to_sparse_coo(),
        "float64": X.double(),
    }[form]
    torch.testing.assert_close(describe_edges(TOWN.graph(), x), describe_edges(TOWN.graph(), X))


def test_entries_of_a_column_that_are_repeated_count_together() -> None:
    once = SparseFeatures.from_tensor(X).matrix
    twice = replace(
        once,
        indptr=2 * once.indptr,
        indices=once.indices.repeat_interleave(2),
        value=once.value.repeat_interleave(2) / 2,
    )
    graph = TOWN.graph()
    torch.testing.assert_close(describe_edges(graph, twice), describe_edges(graph, X))


@pytest.mark.parametrize("compared", [1, 50, 1 << 22])
def test_products_of_rows_are_those_of_the_dense_matrix(
    compared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_features, "COMPARED", compared)
    generator = np.random.default_rng(0)
    matrix = random_array((40, 30), density=0.1, format="csr", rng=generator)
    assert (np.diff(matrix.indptr) == 0).any()
    one, other = generator.integers(0, 40, (2, 200))
    dense = matrix.toarray()
    products = edge_features.row_products(matrix, one, other)
    np.testing.assert_allclose(products, (dense[one] * dense[other]).sum(1))
    assert len(edge_features.row_products(matrix, one[:0], other[:0])) == 0


def test_a_graph_without_edges_or_features_can_be_described() -> None:
    loops = Graph.from_edge_index(torch.zeros(2, 0, dtype=torch.int64), 3)
    described = describe_edges(loops, torch.zeros(3, 2))
    assert described[:, 5].tolist() == [1.0, 1.0, 1.0]
    assert float(described.abs().sum()) == 3.0


def test_the_neighbours_of_a_hub_cost_only_their_own_edges() -> None:
    leaves = 100_000  # of which every one has the hub's row to be compared with
    hub = torch.zeros(leaves, dtype=torch.int64)
    leaf = torch.arange(1, leaves + 1)
    star = Graph.from_edge_index(torch.stack([torch.cat([hub, leaf]), torch.cat([leaf, hub])]))
    described = describe_edges(star, torch.ones(leaves + 1, 1))
    assert float(described[~star.self_loop, 2].max()) == 0.0


@pytest.mark.parametrize("rows", [[1, 2], list(range(TOWN.num_nodes))], ids=["some", "all"])
def test_a_part_is_sent_to_the_whole(rows: list[int]) -> None:
    with pytest.raises(ValueError, match=r"it takes a whole graph, not a part.*parent_edge"):
        describe_edges(TOWN.graph().rows(torch.tensor(rows)), X)


# What a network does with it


def amortised_network(features: int = 4) -> GCN:
    torch.manual_seed(0)
    sampler = DropEdge(AmortizedRate(EDGE_FEATURES), symmetric=False)
    network = GCN(features, 3, 2, 2, sampler, seed=5)
    for layer in network.layers:
        torch.nn.init.normal_(layer.sampler.rate.outer.weight)  # type: ignore[union-attr, arg-type]
    return network


def rates_of(network: GCN) -> list[AmortizedRate]:
    return [layer.sampler.rate for layer in network.layers]  # type: ignore[union-attr, misc]


def test_a_graph_is_described_once_for_all_passes_and_parts_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def counting(graph: Graph, x: Tensor | Graph) -> Tensor:
        calls.append(graph)
        return describe_edges(graph, x)

    monkeypatch.setattr("graphdrop.sampling.rates.amortized.describe_edges", counting)
    network, graph, rows = amortised_network(), TOWN.graph(), torch.tensor([1, 3])
    for _ in range(3):
        network(X, graph)
        network(X, graph, rows=rows)
    assert len(calls) == 1
    other = TOWN.graph()
    network(X, other)
    assert calls[1] is other


def test_a_receptive_field_has_the_rates_of_the_whole_graph() -> None:
    network, graph, rows = amortised_network(), TOWN.graph(), torch.tensor([4, 1])
    draw = network.next_draw()
    whole = network(X, graph, draw=draw)
    torch.testing.assert_close(network(X, graph, rows=rows, draw=draw), whole[rows])
    assert rates_of(network)[0].mean().std() > 0.01


def test_the_rates_of_a_graph_do_not_depend_on_the_numbers_of_its_nodes() -> None:
    network, place = amortised_network().eval(), torch.tensor([3, 5, 0, 2, 1, 4])
    moved = Graph.from_edge_index(place[TOWN.edge_index], TOWN.num_nodes, TOWN.edge_weight)
    here = network(X, TOWN.graph())
    there = network(X[place.argsort()], moved)
    torch.testing.assert_close(there[place], here)


def test_edges_that_no_label_reaches_learn_from_those_that_are_reached() -> None:
    # two triangles that nothing joins
    triangle = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    graph = Graph.from_edge_index(torch.cat([triangle, triangle + 3], 1), 6)
    network = amortised_network()
    network(X, graph, rows=torch.tensor([0])).square().sum().backward()
    rate = rates_of(network)[1]
    before = rate.mean().detach()
    with torch.no_grad():
        for parameter in rate.parameters():
            assert parameter.grad is not None
            parameter.sub_(0.1 * parameter.grad)
    far = graph.edge_dst >= 3
    assert (rate.mean() - before)[far].abs().min() > 0.0
