"""RandomWalk: a walk goes on only from where it has arrived, with rates that can be learned."""

from collections.abc import Hashable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from contracts.dense_layers import TOWN, connections, dense_layer
from contracts.masked_sums import normal
from contracts.sampler_contract import (
    FEATURES,
    NORM,
    OUTPUTS,
    DrawsOfAnother,
    Place,
    SamplerContract,
    make_rate,
    town,
)
from contracts.toy_network import SHARINGS, Toy
from graphdrop.graph import Graph
from graphdrop.nn import GCN, SampledGCNConv
from graphdrop.sampling.rates import BetaBernoulliRate, FixedRate, LearnedRate, Rate
from graphdrop.sampling.samplers import Draw, RandomWalk, Sampler

X = normal(TOWN.num_nodes, FEATURES, seed=4)
DESTINATION = torch.tensor([connection.destination for connection in connections(TOWN)])


def network(rate: Rate, layers: int = 3) -> GCN:
    torch.manual_seed(0)
    return GCN(FEATURES, OUTPUTS, layers, OUTPUTS, RandomWalk(rate), normalization=NORM, bias=False)


def walks(model: GCN) -> list[RandomWalk]:
    return [layer.sampler for layer in model.layers]  # type: ignore[misc]


def reached(model: GCN, draw: Draw | None) -> Tensor:
    """How far each node is reached before every layer but the first, `[layers - 1, nodes]`."""
    found = [walk.reached(town(), draw, layer) for layer, walk in enumerate(walks(model))]
    assert found[0] is None
    return torch.stack([each[:, 0] for each in found[1:] if each is not None])


class TestRandomWalk(DrawsOfAnother, SamplerContract):
    """One layer alone samples edges, each on its own; layers together walk."""

    def sampler(self, rate: Rate) -> Sampler:
        return RandomWalk(rate)

    def draw_of(self, place: Place) -> Hashable:
        return place.connection

    @pytest.mark.parametrize(
        ("rate", "temperature"), [("fixed", None), ("learned", None), ("beta", 0.67)]
    )
    def test_layers_of_a_network_use_their_own_masks_and_no_one_elses(
        self, rate: str, temperature: float | None
    ) -> None:
        model, least = network(make_rate(rate)), 1.0
        parameters = [p for walk in walks(model) for p in walk.rate.parameters()]
        for step in range(8):
            draw = Draw(6, step, temperature=temperature)
            hidden, arrived = X.double(), torch.ones(TOWN.num_nodes, dtype=torch.float64)
            for number, layer in enumerate(model.layers):
                assert isinstance(layer, SampledGCNConv)
                assert layer.sampler is not None
                independent = self.mask(layer.sampler, draw, number, features=layer.in_channels)
                mask = independent * arrived[DESTINATION][:, None, None]
                least = min(least, arrived.min().item())
                hidden = dense_layer(self.matrices(mask), hidden, layer.weight)
                hidden = hidden if number == 2 else hidden.relu()
                missed = [
                    (1.0 - independent[node == DESTINATION, 0, 0]).prod()
                    for node in range(TOWN.num_nodes)
                ]
                arrived = arrived * (1.0 - torch.stack(missed))
            out = model(X, town(), draw=draw)
            torch.testing.assert_close(out.double(), hidden, rtol=1e-5, atol=1e-5)
            if temperature is not None:
                found, wanted = (
                    torch.autograd.grad(each.square().sum(), parameters, retain_graph=True)
                    for each in (out, hidden)
                )
                torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
        assert least < 0.3  # somewhere the walk had ended, or nearly


def test_rows_of_a_graph_without_self_loops_are_refused() -> None:
    one_way = torch.tensor([[0, 1, 2], [1, 2, 3]])
    bare = Graph.from_edge_index(one_way, TOWN.num_nodes, self_loops=False, normalization=NORM)
    model = network(FixedRate(keep=0.5))
    assert model(X, bare).shape[0] == TOWN.num_nodes
    with pytest.raises(ValueError, match=r"a random walk reads every row itself.*self-loops"):
        model(X, bare, rows=torch.tensor([3]))


def test_rows_alone_give_what_they_give_among_all() -> None:
    for rate, temperature in ((FixedRate(keep=0.5), None), (BetaBernoulliRate(), 0.67)):
        model, rows = network(rate), torch.tensor([4, 1])
        for sample in range(5):
            draw = Draw(1, 1, sample, temperature=temperature)
            torch.testing.assert_close(
                model(X, town(), rows=rows, draw=draw), model(X, town(), draw=draw)[rows]
            )


def test_the_chance_to_be_reached_is_that_of_an_edge_kept_in_every_layer_before() -> None:
    model = network(FixedRate(keep=0.3))
    degree = torch.bincount(DESTINATION)
    one_layer = 1.0 - 0.7**degree
    torch.testing.assert_close(reached(model, None), torch.stack([one_layer, one_layer**2]))


@pytest.mark.parametrize("rate", ["fixed", "learned", "beta", "beta per mask"])
def test_without_a_draw_nodes_are_reached_as_often_as_samples_reach_them(rate: str) -> None:
    model, samples = network(make_rate(rate)), 1000
    with torch.no_grad():
        found = torch.stack([reached(model, Draw(1, 1, sample)) for sample in range(samples)])
        wanted = reached(model, None)
    error = (wanted * (1.0 - wanted) / samples).sqrt() + 1e-3
    assert float(wanted.min()) < 0.8
    assert float(((found.mean(0) - wanted) / error).abs().max()) < 4.5


def test_what_a_walk_has_reached_matters_to_the_gradient_that_is_estimated() -> None:
    """Else it would say nothing of walks that estimators agree with enumeration."""
    toy = Toy("random walk", LearnedRate(0.6))
    logits = [torch.tensor(0.4, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    walking = torch.autograd.grad(toy.expected_loss(logits), logits)
    toy.sharing = replace(SHARINGS["random walk"], walk=False)
    independent = torch.autograd.grad(toy.expected_loss(logits), logits)
    for one, other in zip(walking, independent, strict=True):
        assert abs(float(one - other)) > 0.01


def test_a_rate_for_every_edge_is_refused() -> None:
    with pytest.raises(ValueError, match="RandomWalk takes a rate with one value"):
        RandomWalk(LearnedRate(entries=3))
