"""Mixed-order propagation is what dense matrices give, with the masks that its draws say."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from contracts.dense_layers import TOWN, connections, hard_draw, masked_matrices
from graphdrop import load_dataset
from graphdrop.config import Config, ModelSettings
from graphdrop.data.synthetic import synthetic_graph
from graphdrop.graph.masks import SOURCE_ONLY
from graphdrop.inference import predict
from graphdrop.loading import NeighborLoader
from graphdrop.nn.features import SPARSE_DENSITY, SparseFeatures
from graphdrop.nn.methods import Blueprint
from graphdrop.nn.propagation import HOP_SHIFT, MixedOrderPropagation
from graphdrop.nn.sampled import sampled
from graphdrop.sampling.rates import LearnedRate
from graphdrop.sampling.samplers import (
    KEEP_ALL,
    Draw,
    DropEdge,
    DropNode,
    DropOut,
    GraphDropConnect,
    RandomWalk,
    Sampler,
)
from graphdrop.train import Trainer
from graphdrop.train.progress import Silent

ORDERS, FEATURES, KEEP = 3, 4, 0.5
X = torch.randn(TOWN.num_nodes, FEATURES, generator=torch.Generator().manual_seed(0))
DRAW = Draw(seed=3, step=7, sample=1)
LAYER = 2
"""The number of the layer, in the key of its draws."""


def propagated(sampler: Sampler | None, draw: Draw | None, orders: int = ORDERS, **how: Any):
    layer = MixedOrderPropagation(orders, sampler, **how)
    layer.ask(draw, LAYER)
    return layer(X, TOWN.edge_index, TOWN.edge_weight)


def mean_of_hops(x: Tensor, hops: list[Tensor]) -> Tensor:
    """The mean of `x` and of what every hop makes of it; matrices are `[features, n, n]`."""
    states = [x.double()]
    for matrix in hops:
        states.append(torch.einsum("ivu,ui->vi", matrix.expand(FEATURES, -1, -1), states[-1]))
    return torch.stack(states).mean(0)


def node_draws(sampler_keep: float = KEEP) -> Tensor:
    key = DRAW.key(LAYER)
    return torch.tensor(
        [[hard_draw(key, sampler_keep, SOURCE_ONLY, u, draw=i) for i in range(FEATURES)]
         for u in range(TOWN.num_nodes)]
    )  # fmt: skip


def edge_draws(hop: int, blocks: int) -> Tensor:
    key = DRAW.key(LAYER | hop << HOP_SHIFT)
    of_feature = [feature * blocks // FEATURES for feature in range(FEATURES)]
    return torch.tensor(
        [[hard_draw(key, KEEP, v, u, rank, of_feature[i]) for i in range(FEATURES)]
         for v, u, rank, _ in connections(TOWN)]
    )  # fmt: skip


@pytest.mark.parametrize("norm", ["sym", "row", "paper"])
def test_without_masks_it_is_the_mean_of_the_powers_of_the_matrix(norm):
    matrix = masked_matrices(TOWN, norm)
    for orders in (0, 1, 4):
        wanted = mean_of_hops(X, [matrix] * orders)
        for sampler, draw in ((None, None), (DropNode(0.5), KEEP_ALL), (DropEdge(0.0), DRAW)):
            found = propagated(sampler, draw, orders, normalization=norm)
            torch.testing.assert_close(found, wanted.float())


@pytest.mark.parametrize(
    ("sampler", "columns"),
    [(DropNode(1 - KEEP, rescale=True), 1), (DropOut(1 - KEEP), FEATURES)],
    ids=["nodes", "features"],
)
def test_nodes_and_features_are_masked_once_before_all_hops(sampler, columns):
    kept = node_draws()[:, [i if columns > 1 else 0 for i in range(FEATURES)]]
    assert 0 < kept.mean() < 1
    hops = [masked_matrices(TOWN, "sym")] * ORDERS
    wanted = mean_of_hops(kept * X / KEEP, hops)
    torch.testing.assert_close(propagated(sampler, DRAW), wanted.float())
    torch.testing.assert_close(propagated(sampler, None), mean_of_hops(X, hops).float())


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("blocks", [1, 2, FEATURES])
def test_connections_are_masked_in_every_hop_anew(blocks, before):
    sampler = GraphDropConnect(1 - KEEP, blocks=blocks, before_normalization=before)
    hops = [
        masked_matrices(TOWN, "sym", edge_draws(hop, blocks), before=before)
        for hop in range(ORDERS)
    ]
    torch.testing.assert_close(propagated(sampler, DRAW), mean_of_hops(X, hops).float())
    if not before:
        expected = [KEEP * masked_matrices(TOWN, "sym")] * ORDERS
        torch.testing.assert_close(propagated(sampler, None), mean_of_hops(X, expected).float())


@pytest.mark.parametrize("make", [DropNode, DropOut, GraphDropConnect])
def test_a_relaxed_mask_passes_the_gradient_on_to_the_rate(make):
    draw = Draw(seed=3, step=7, temperature=0.67)
    layer = MixedOrderPropagation(ORDERS, make(LearnedRate(0.6)))
    (parameter,) = layer.parameters()

    start = parameter.item()

    def loss(shift: float) -> Tensor:
        with torch.no_grad():
            parameter.fill_(start + shift)
        layer.ask(draw, LAYER)
        return layer(X, TOWN.edge_index, TOWN.edge_weight).double().square().sum()

    loss(0.0).backward()
    slope = (loss(1e-2) - loss(-1e-2)).item() / 2e-2
    assert parameter.grad.item() == pytest.approx(slope, rel=2e-2)


def test_what_it_cannot_sample_or_divide_is_refused():
    with pytest.raises(ValueError, match=r"orders is -1; it takes a number of at least 0"):
        MixedOrderPropagation(-1)
    for sampler in (RandomWalk(0.2), GraphDropConnect(0.2, pairs=True)):
        with pytest.raises(ValueError, match="a propagation takes DropNode, DropOut, DropEdge or"):
            MixedOrderPropagation(1, sampler)
    trainer = trained("PROPAGATION-NS")
    with pytest.raises(ValueError, match="may read more than the edges into a node"):
        predict(trainer.model, trainer.data, layerwise=True)


DATA = load_dataset(
    synthetic_graph(40, 2, num_features=8, words_per_node=3.0).data, split="random-fractions"
)


def trained(method: str, **model: Any) -> Trainer:
    """Two epochs of GRAND's objective: four samples that are asked to agree."""
    config = Config(
        data={"dataset": "data"},
        model={"method": method, "hidden": 4, "orders": 2, **model},
        objective={"agree": 1.0, "sharpen": 0.5},
        train={"epochs": 2, "evaluate_every": 1, "samples": 2, "passes": 4},
        predict={"samples": 2},
    )
    trainer = Trainer(config, DATA, progress=Silent())
    trainer.fit()
    return trainer


def test_by_name_it_has_the_hops_and_depth_of_the_settings_and_all_weights_have_l2():
    trainer = trained("PROPAGATION-BBNS", layers=3)
    propagation = trainer.model.input_propagation
    assert (propagation.orders, len(trainer.model.convs)) == (2, 3)
    assert isinstance(propagation.sampler, DropNode)
    assert trainer.model.defaults.sample_dropout
    assert list(trainer.run.engine.drop_rates()) == ["input_propagation"]
    assert all(line["agree"] > 0.0 for line in trainer.journal.lines)
    weights = [p.detach() for p in trainer.model.parameters() if p.dim() > 1]
    squares = sum(float(weight.square().sum()) for weight in weights)
    assert trainer.run.objective.l2([]).item() == pytest.approx(squares, rel=1e-5)


WEIGHT = torch.randn(FEATURES, 3, generator=torch.Generator().manual_seed(1))
FEW = torch.where(X > 0.3, X, 0.0)
"""Features with zeros among them."""


SAMPLERS = [
    None,
    DropNode(0.5, rescale=True),
    DropNode(0.5),
    DropOut(0.5),
    DropOut(0.5, rescale=False),
    DropEdge(0.5),
    GraphDropConnect(0.5, blocks=1, before_normalization=True),
]


@pytest.mark.parametrize(
    ("sampler", "sparse", "draw"),
    [
        *((sampler, True, DRAW) for sampler in SAMPLERS),
        *((sampler, False, None) for sampler in SAMPLERS),
        # masks of nodes and of features have code of their own for each form of input
        *((sampler, False, DRAW) for sampler in (SAMPLERS[1], SAMPLERS[3])),
        *((sampler, True, None) for sampler in (SAMPLERS[2], SAMPLERS[4])),
        # where all is kept, no sampler is asked
        *[(SAMPLERS[3], True, KEEP_ALL), (SAMPLERS[5], False, KEEP_ALL)],
    ],
)
def test_weights_before_the_hops_are_weights_behind_them(sampler, sparse, draw):
    layer = MixedOrderPropagation(ORDERS, sampler)
    layer.ask(draw, LAYER)
    wanted = layer(FEW, TOWN.edge_index, TOWN.edge_weight) @ WEIGHT
    given = SparseFeatures.from_tensor(FEW) if sparse else FEW
    found = layer(given, TOWN.edge_index, TOWN.edge_weight, weight=WEIGHT)
    torch.testing.assert_close(found, wanted)
    if draw is DRAW and sampler is not None:
        layer.ask(KEEP_ALL, LAYER)
        assert not torch.allclose(layer(FEW, TOWN.edge_index, TOWN.edge_weight) @ WEIGHT, wanted)


def networks(method: str, channels: int = 8, **settings: Any) -> tuple[nn.Module, nn.Module]:
    """Two networks of the same weights: features pass the hops, or the first layer's output."""
    features, hidden = (
        Blueprint(
            ModelSettings(
                method=method, hidden=6, norm="sym", orders=2, propagate=what, blocks=1, **settings
            ),
            channels,
            2,
            0,
        ).build(seed=5)
        for what in ("features", "hidden")
    )
    assert [p.shape for p in features.parameters()] == [p.shape for p in hidden.parameters()]
    return features, hidden


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        *((name, 2) for name in ("DO", "NS", "BBNS", "BBDO", "DE", "BBGDC", "BBGDC-ARM")),
        *((name, 1) for name in ("DO", "BBNS")),
    ],
)
def test_without_input_dropout_both_orders_are_one_function(name, layers):
    both = networks(f"PROPAGATION-{name}", layers=layers, dropout=0.0)
    for network in both:
        network.convs[0].bias.data.fill_(0.7)  # it is added once, behind the hops
    for draw in (Draw(seed=1, step=2, temperature=0.67), Draw(seed=1, step=3), None):
        one, other = (
            next(sampled(network).samples(DATA.data, [draw], training=True)) for network in both
        )
        torch.testing.assert_close(one, other)


def test_input_dropout_of_hidden_propagation_acts_on_features_before_the_hops():
    _, network = networks("PROPAGATION-DO", layers=1, input_dropout=0.75)
    x, edges = torch.eye(8)[:5], torch.tensor([[0, 1], [1, 0]])
    nn.init.eye_(network.convs[0].weight)
    nn.init.zeros_(network.convs[0].bias)
    hops = MixedOrderPropagation(2).eval()
    assert torch.allclose(network.eval()(x, edges), hops(x, edges)[:, :2])
    network.train()
    seen = torch.stack([network(x, edges).detach() for _ in range(200)])
    kept = torch.linalg.solve(hops(torch.eye(5), edges), seen)  # the hops undone
    assert ((kept.abs() < 1e-4) | ((kept - 4.0).abs() < 1e-4)).all()
    assert abs(float(kept[:, [0, 1], [0, 1]].mean()) - 1.0) < 0.4
    dense = network(torch.ones(5, 8), edges)  # which is not taken as sparse
    assert dense.shape == (5, 2)


def test_hidden_propagation_trains_by_name_and_leaves_out_the_normalization_of_features():
    trainer = trained("PROPAGATION-BBGDC", propagate="hidden", norm_layer="batch", blocks=2)
    model = trainer.model
    assert isinstance(model.input_norm, nn.Identity)
    assert isinstance(model.norms[0], nn.BatchNorm1d)
    assert model.input_propagation.sampler.blocks == 2
    x, edges = DATA.data.x, DATA.data.edge_index
    model.eval()
    torch.testing.assert_close(model(x.to_sparse(), edges), model(x, edges))
    with pytest.raises(ValueError, match="may read more than the edges into a node"):
        predict(model, DATA.data, layerwise=True)


@pytest.mark.parametrize("method", ["NS", "BBDO", "BBGDC"])
def test_hidden_propagation_of_a_mini_batch_draws_what_the_whole_graph_draws(method):
    _, network = networks(f"PROPAGATION-{method}", 60, dropout=0.0)
    data = synthetic_graph(40, 2, num_features=60, words_per_node=3.0).data
    assert (data.x != 0).double().mean() < SPARSE_DENSITY
    engine = sampled(network)
    draw = Draw(seed=1, step=2)
    whole = next(engine.samples(data, [draw]))
    loader = NeighborLoader(data, [-1, -1], input_nodes=torch.arange(40), batch_size=7)
    parts = [next(engine.samples(batch, [draw])) for batch in loader]
    torch.testing.assert_close(torch.cat(parts), whole)


def test_the_residual_of_a_hidden_propagation_reads_the_features_as_they_are():
    _, network = networks("PROPAGATION-NS", residual="linear")
    for layer in network.convs[:1]:
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    x = DATA.data.x
    wanted = network.convs[1](network.skips[0](x).relu())
    torch.testing.assert_close(network.eval()(x, DATA.data.edge_index), wanted)
