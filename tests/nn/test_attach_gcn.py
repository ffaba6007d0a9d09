"""A GCN built by hand from GCNConv, attached, is our own GCN draw for draw."""

from dataclasses import replace
from itertools import cycle

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCNConv, conv

from contracts.dense_layers import TOWN
from contracts.masked_sums import normal
from graphdrop import ARM, GCN, attach
from graphdrop.graph import Graph
from graphdrop.kernels.reference import materialize
from graphdrop.nn.attach import Handle
from graphdrop.sampling.rates import BetaBernoulliRate, LearnedRate
from graphdrop.sampling.samplers import Draw, DropEdge, DropNode, DropOut, GraphDropConnect, Sampler

IN, HIDDEN, OUT = 5, 6, 3
X = normal(TOWN.num_nodes, IN, seed=1)
# add_remaining_self_loops makes one of parallel self-loops, which TOWN has not
EDGES, WEIGHTS = TOWN.edge_index, TOWN.edge_weight
ENTRIES = Graph.from_edge_index(EDGES, TOWN.num_nodes).num_edges
LABELS = torch.tensor([0, 1, 2, 0, 1, 2])

SAMPLERS = {
    "connections": GraphDropConnect(BetaBernoulliRate(), blocks=2),
    "per feature": GraphDropConnect(LearnedRate(0.6), blocks=None, first_blocks=None),
    "symmetric": GraphDropConnect(LearnedRate(0.6), blocks=3, symmetric=True, self_loops=False),
    "edges": DropEdge(BetaBernoulliRate()),
    "nodes": DropNode(LearnedRate(0.6), rescale=True),
    "features": DropOut(LearnedRate(0.6)),
    "edges before": DropEdge(LearnedRate(0.6), before_normalization=True),
    "connections before": GraphDropConnect(
        BetaBernoulliRate(), blocks=2, symmetric=True, before_normalization=True
    ),
    "rates per edge before": GraphDropConnect(
        BetaBernoulliRate(entries=ENTRIES), blocks=2, before_normalization=True
    ),
    "rates per edge": DropEdge(BetaBernoulliRate(entries=ENTRIES), symmetric=False),
}
samplers = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS.keys())


class ByHand(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GCNConv(IN, HIDDEN), GCNConv(HIDDEN, HIDDEN)
        self.third = GCNConv(HIDDEN, OUT)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        for layer in (self.first, self.second):
            x = layer(x, edge_index, edge_weight).relu()
        out: Tensor = self.third(x, edge_index, edge_weight)
        return out


def twins(sampler: Sampler, **options: object) -> tuple[GCN, Handle]:
    """Two models with the same weights, rates and seeds."""
    own, by_hand = GCN(IN, HIDDEN, 3, OUT, sampler, seed=5), ByHand()
    handle = attach(by_hand, sampler, seed=5, **options)
    for layer, masked in zip(own.layers, handle.layers.values(), strict=True):
        with torch.no_grad():
            nn.init.normal_(layer.bias)
            masked.layer.lin.weight.copy_(layer.weight.T)
            masked.layer.bias.copy_(layer.bias.sum(0))
        masked.sampler.load_state_dict(layer.sampler.state_dict())
    return own, handle


def rates(own: GCN) -> list[nn.Parameter]:
    return [p for layer in own.layers for p in layer.sampler.parameters()]


@pytest.mark.parametrize(
    ("sampler", "weights"),
    list(zip(SAMPLERS.values(), cycle([None, WEIGHTS]))),
    ids=list(SAMPLERS),
)
def test_each_training_step_draws_the_same(sampler, weights):
    own, handle = twins(sampler)
    for _ in range(3):
        ours, theirs = (model(X, EDGES, weights) for model in (own, handle.model))
        torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=1e-5)
        for model_loss, parameters in ((ours, rates(own)), (theirs, list(handle.parameters()))):
            for parameter in parameters:
                parameter.grad = None
            model_loss.square().sum().backward()
        for one, other in zip(rates(own), handle.parameters(), strict=True):
            torch.testing.assert_close(other.grad, one.grad, rtol=1e-3, atol=1e-4)
            assert bool((other.grad != 0.0).any())
    own.eval(), handle.model.eval()
    torch.testing.assert_close(handle.model(X, EDGES), own(X, EDGES), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(handle.kl(), own.kl())


@samplers
def test_arm_gives_the_same_gradients(sampler):
    own, handle = twins(sampler, estimator=ARM())
    own.estimator = ARM()
    own.backward(lambda: cross_entropy(own(X, EDGES), LABELS))
    handle.backward(lambda: cross_entropy(handle.model(X, EDGES), LABELS))
    for one, other in zip(rates(own), handle.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad, rtol=1e-3, atol=1e-5)
    own_weight = own.layers[1].weight.grad
    torch.testing.assert_close(handle.model.second.lin.weight.grad.T, own_weight)


class Weighted(nn.Module):
    """A layer of PyG that normalizes by itself, with the weights that it is given."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        out: Tensor = self.layer(x, edge_index, edge_weight)
        return out


@pytest.mark.parametrize("per_edge", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: GCNConv(IN, OUT),
        lambda: GCNConv(IN, OUT, improved=True, add_self_loops=False),
        lambda: conv.TAGConv(IN, OUT),
        lambda: conv.ARMAConv(IN, OUT),
        lambda: conv.ChebConv(IN, OUT, K=3),
        lambda: conv.SGConv(IN, OUT, K=2),
        lambda: conv.GraphConv(IN, OUT),
        lambda: conv.APPNP(K=1, alpha=0.1),
    ],
    ids=["GCN", "GCN improved", "TAG", "ARMA", "Cheb", "SG", "GraphConv", "APPNP"],
)
def test_masked_weights_go_into_the_normalization_of_a_layer(make, per_edge):
    loops = not per_edge and not isinstance(make(), conv.ChebConv)
    edges = EDGES if loops else EDGES[:, EDGES[0] != EDGES[1]]
    rate = BetaBernoulliRate(entries=edges.shape[1] if per_edge else None)
    sampler = DropEdge(rate, symmetric=False, before_normalization=True)
    torch.manual_seed(1)
    model = Weighted(make())
    handle = attach(model, sampler, seed=3)
    draw = Draw(3, 0, temperature=0.67)
    weight = torch.arange(1.0, 1 + edges.shape[1]) / 5
    with handle.drawing(draw):
        found = model(X, edges, weight)
    found.square().sum().backward()
    parameters = list(model.parameters())
    gradients = [p.grad for p in parameters]
    # the masks, written out, times the weights, into the layer as PyG has it
    (own,) = [one.sampler for one in handle.layers.values()]
    graph = Graph.from_edge_index(edges, TOWN.num_nodes, normalization="none")
    mask = replace(own.mask(graph, draw, 0), before_normalization=False, self_loops=False)
    number = torch.argsort(edges[1] * TOWN.num_nodes + edges[0], stable=True).argsort()
    kept = materialize(graph, mask, 1)[number, 0]
    handle.remove()
    for p in parameters:
        p.grad = None
    wanted = model(X, edges, weight * kept)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    wanted.square().sum().backward()
    for p, gradient in zip(parameters, gradients, strict=True):
        torch.testing.assert_close(gradient, p.grad, rtol=1e-3, atol=1e-4)
