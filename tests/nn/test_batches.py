"""A mini-batch draws the masks of the full batch, and with full neighbourhoods is equal to it."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GIN, GraphSAGE
from torch_geometric.nn.models import basic_gnn

from contracts.masked_sums import normal
from graphdrop.graph import Graph
from graphdrop.kernels.reference import materialize
from graphdrop.loading import NeighborLoader, WholeGraph, with_graph
from graphdrop.nn import GCN, SampledGCNConv, sampled
from graphdrop.nn.attach import attach
from graphdrop.sampling.estimators import ARM
from graphdrop.sampling.rates import AmortizedRate, BetaBernoulliRate, FixedRate, LearnedRate
from graphdrop.sampling.samplers import (
    Draw,
    DropEdge,
    DropNode,
    DropOut,
    GraphDropConnect,
    RandomWalk,
)

PyGGCN = basic_gnn.GCN
NODES, FEATURES = 60, 5
SEEDS = torch.tensor([7, 0, 41, 22])
DRAW = Draw(3, 5, temperature=0.67)


def street() -> Data:
    """A directed, weighted graph with parallel edges, self-loops and a node without edges."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(NODES - 1, (2, 240), generator=generator)
    more = torch.tensor([[3, 3, 7, 9, 9], [7, 7, 7, 9, 0]])
    edges = torch.cat([edges, more, edges[:, :9]], 1)
    weight = torch.rand(edges.shape[1], generator=generator) + 0.5
    return Data(normal(NODES, FEATURES, seed=1), edges, edge_weight=weight)


DATA = street()
EDGES = Graph.from_data(DATA).num_edges
SAMPLERS = {
    "none": (None, 0.0),
    "dropout": (DropOut(0.4), 0.0),
    "dropnode": (DropNode(BetaBernoulliRate(), rescale=True), 0.0),
    "dropedge": (DropEdge(0.4), 0.0),
    "dropedge and dropout": (DropEdge(0.4, self_loops=False), 0.5),
    "dropedge before": (DropEdge(LearnedRate(0.6), before_normalization=True), 0.0),
    "rate per edge": (DropEdge(LearnedRate(0.6, entries=EDGES), symmetric=False), 0.0),
    "rate per edge before": (
        DropEdge(LearnedRate(0.6, entries=EDGES), symmetric=False, before_normalization=True),
        0.0,
    ),
    "amortized before": (
        GraphDropConnect(AmortizedRate(22), blocks=2, before_normalization=True),
        0.0,
    ),
    "amortized": (GraphDropConnect(AmortizedRate(22), blocks=1), 0.0),
    "blocks": (GraphDropConnect(BetaBernoulliRate(), first_blocks=2), 0.0),
    "per feature before": (
        GraphDropConnect(LearnedRate(0.6), blocks=None, before_normalization=True),
        0.0,
    ),
    "pairs": (GraphDropConnect(FixedRate(keep=0.6), pairs=True), 0.0),
    "random walk": (RandomWalk(0.3), 0.0),
}


def one_batch(loader: Any) -> Data:
    (batch,) = loader
    return batch


def full(layers: int, **options: Any) -> Data:
    return one_batch(NeighborLoader(DATA, [-1] * layers, SEEDS, batch_size=9, **options))


def outputs(model: nn.Module, data: Data, draw: Draw | None = DRAW) -> list[Tensor]:
    """The outputs of the seeds and the gradients of all parameters."""
    model.zero_grad()
    (out,) = sampled(model).samples(data, [draw], training=draw is not None)
    out = out if hasattr(data, "n_id") else out[SEEDS]
    out.backward(normal(*out.shape, seed=3))
    return [out, *(p.grad for p in model.parameters() if p.grad is not None)]


def check_same(found: list[Tensor], wanted: list[Tensor]) -> None:
    assert len(found) == len(wanted) > 1
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


BEFORE = ("dropedge before", "per feature before", "rate per edge before", "amortized before")


@pytest.mark.parametrize(
    ("name", "normalization"),
    [
        *((name, ("sym", "row", "paper")[at % 3]) for at, name in enumerate(SAMPLERS)),
        *((name, kind) for name in BEFORE for kind in ("row", "paper")),
    ],
)
def test_a_full_neighbourhood_gives_the_outputs_of_the_full_batch(
    name: str, normalization: str
) -> None:
    sampler, dropout = SAMPLERS[name]
    model = GCN(FEATURES, 6, 3, 4, sampler, dropout=dropout, normalization=normalization)
    check_same(outputs(model, full(3)), outputs(model, DATA))


@pytest.mark.parametrize(
    "options",
    [
        {"residual": True},
        {"residual": "initial"},
        {"residual": "linear", "norm": "layer", "jk": "last"},
        {"jk": "cat"},
        {"jk": "max"},
    ],
    ids=str,
)
def test_skip_connections_find_their_rows_in_a_batch(options: dict[str, Any]) -> None:
    model = GCN(FEATURES, 6, 3, 4, DropEdge(0.4), **options)
    check_same(outputs(model, full(3)), outputs(model, DATA))


@pytest.mark.parametrize("stored", [False, True], ids=["dense", "sparse"])
def test_sparse_features_are_read_in_a_batch(stored: bool) -> None:
    data = DATA.clone()
    data.x = torch.where(data.x > 1.0, data.x, 0.0)
    data.x = data.x.to_sparse() if stored else data.x
    model = GCN(FEATURES, 6, 2, 4, GraphDropConnect(BetaBernoulliRate()), dropout=0.3)
    batch = one_batch(NeighborLoader(data, [-1, -1], SEEDS, batch_size=4))
    check_same(outputs(model, batch), outputs(model, data))


class Own(nn.Module):
    """A module with layers that do not know of one another."""

    def __init__(self) -> None:
        super().__init__()
        self.one = SampledGCNConv(FEATURES, 6, GraphDropConnect(blocks=2), dropout=DropOut(0.2))
        self.two = SampledGCNConv(6, 4, DropEdge(LearnedRate(0.6), before_normalization=True))

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        return self.two(self.one(x, edge_index, edge_weight).relu(), edge_index, edge_weight)


def test_a_module_with_sampled_layers_takes_a_batch() -> None:
    model = Own()
    check_same(outputs(model, full(2)), outputs(model, DATA))


ATTACHED = {
    "GCN": PyGGCN(FEATURES, 6, 3, 4),
    "SAGE": GraphSAGE(FEATURES, 6, 3, 4),
    "GAT": GAT(FEATURES, 6, 3, 4, heads=2),
    "GIN": GIN(FEATURES, 6, 3, 4),
}


@pytest.mark.parametrize(
    ("name", "sampler"),
    [
        ("GCN", GraphDropConnect(BetaBernoulliRate(), blocks=2)),
        ("SAGE", DropEdge(0.4)),
        ("GAT", DropNode(0.3, rescale=True)),
        ("GIN", DropOut(0.3)),
        ("GAT", GraphDropConnect(BetaBernoulliRate(), blocks=2)),
        ("GCN", DropEdge(0.4)),
        ("SAGE", DropNode(0.3, rescale=True)),
        ("GAT", DropOut(0.3)),
        ("GCN", GraphDropConnect(BetaBernoulliRate(), blocks=2, before_normalization=True)),
    ],
)
def test_an_attached_model_gives_the_outputs_of_the_full_batch(name: str, sampler: Any) -> None:
    model = ATTACHED[name].__class__(FEATURES, 6, 3, 4)
    data, batch = DATA, full(3)
    if name != "GCN":
        data, batch = DATA.clone(), batch.clone()
        del data.edge_weight, batch.edge_weight
    attach(model, sampler, seed=1)
    check_same(outputs(model, batch), outputs(model, data))


@pytest.mark.parametrize("importance", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_an_attached_model_reads_a_sampled_batch_as_our_own(before: bool, importance: bool) -> None:
    edges, weight = DATA.edge_index.unique(dim=1), None
    data = Data(DATA.x, edges, edge_weight=weight)
    sampler = GraphDropConnect(BetaBernoulliRate(), blocks=2, before_normalization=before)
    own, theirs = GCN(FEATURES, 6, 2, 4, sampler, seed=1), PyGGCN(FEATURES, 6, 2, 4)
    handle = attach(theirs, sampler, seed=1)
    for ours, masked in zip(own.layers, handle.layers.values(), strict=True):
        masked.layer.lin.weight.data = ours.weight.detach().T.clone()
        masked.sampler.load_state_dict(ours.sampler.state_dict())
    loader = NeighborLoader(data, [2, 2], SEEDS, batch_size=4, importance=importance)
    batch = one_batch(loader)
    for draw in (DRAW, None):
        (wanted,), (found,) = (sampled(one).samples(batch, [draw]) for one in (own, theirs))
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["GCN", "GCN before", "SAGE"])
@pytest.mark.parametrize("loops", [False, True])
def test_an_attached_rate_per_edge_is_found_by_the_edge(kind: str, loops: bool) -> None:
    model = (GraphSAGE if kind == "SAGE" else PyGGCN)(FEATURES, 6, 2, 4)
    data = DATA.clone()
    data.edge_index, data.edge_weight = data.edge_index[:, :240].unique(dim=1), None
    if not loops:
        data.edge_index = data.edge_index[:, data.edge_index[0] != data.edge_index[1]]
    edges = Graph.from_data(data).num_edges if loops or kind == "GCN" else data.num_edges
    before = kind == "GCN before"
    rate = LearnedRate(0.6, entries=edges)
    attach(model, DropEdge(rate, symmetric=False, before_normalization=before))
    for layer in sampled(model).sampled_layers().values():
        nn.init.normal_(next(layer.sampler.parameters()))
    batch = one_batch(NeighborLoader(data, [-1, -1], SEEDS, batch_size=4))
    check_same(outputs(model, batch), outputs(model, data))


@pytest.mark.parametrize(
    "make", [lambda: GCN(FEATURES, 6, 2, 4, DropEdge(0.4)), PyGGCN], ids=["ours", "PyG's"]
)
def test_a_batch_of_another_loader_is_enough(make: Any) -> None:
    # as PyG's loader gives it: edges in any order, no mention of our graph
    batch, shuffle = full(2), torch.randperm(full(2).num_edges, generator=torch.Generator())
    foreign = Data(batch.x, batch.edge_index[:, shuffle], n_id=batch.n_id)
    foreign.edge_weight, foreign.e_id = batch.edge_weight[shuffle], batch.e_id[shuffle]
    foreign.batch_size = batch.batch_size
    model = make() if make is not PyGGCN else PyGGCN(FEATURES, 6, 2, 4)
    if make is PyGGCN:
        attach(model, GraphDropConnect(BetaBernoulliRate(), blocks=2))
    with pytest.raises(ValueError, match="with_graph"):
        outputs(model, foreign)
    known = with_graph(foreign, WholeGraph.from_data(DATA))
    check_same(outputs(model, known), outputs(model, DATA))


def test_calls_in_the_context_of_a_batch_use_its_ids() -> None:
    model = GCN(FEATURES, 6, 2, 4, GraphDropConnect(BetaBernoulliRate()))
    batch = full(2)
    with model.batch(batch), model.drawing(DRAW):
        out = model(batch.x, batch.edge_index, batch.edge_weight)
    torch.testing.assert_close(
        out, model(DATA.x, DATA.edge_index, DATA.edge_weight, draw=DRAW)[SEEDS]
    )
    handle = attach(GAT(FEATURES, 6, 2, 4), DropEdge(0.5))
    with handle.batch(batch), handle.drawing(DRAW):
        out = handle.model(batch.x, batch.edge_index)
    with handle.drawing(DRAW):
        wanted = handle.model(DATA.x, DATA.edge_index)
    torch.testing.assert_close(out[: batch.batch_size], wanted[SEEDS])


@pytest.mark.parametrize("kind", ["GCN", "attached"])
def test_an_edge_drawn_twice_is_one_draw(kind: str) -> None:
    # replace: two draws of one edge; its mask is one, and ARM counts it once
    data = Data(normal(3, FEATURES, seed=1), torch.tensor([[1, 2, 2], [0, 0, 0]]))
    loader = NeighborLoader(data, [6], torch.tensor([0]), True, importance=True)
    batch = one_batch(loader)
    assert batch.num_edges == 6
    sampler = DropEdge(LearnedRate(0.6), symmetric=False)
    if kind == "GCN":
        model: nn.Module = GCN(FEATURES, 2, 1, 2, sampler, estimator=ARM())
    else:
        model = GIN(FEATURES, 2, 1, 2)
        attach(model, sampler, ARM())
    tape: list[Any] = []
    next(iter(sampled(model).samples(batch, [Draw(0, 0, tape=tape)])))
    loop = 1 if kind == "GCN" else 0
    assert int(tape[0].sums().count) == len(set(batch.e_id.tolist())) + loop
    ranks = materialize(tape[0].graph, tape[0].mask, 1)
    assert len(ranks) == 3 + loop  # both parallel edges were drawn, each with its own mask
