"""Mixed-order propagation is what dense matrices give, with the masks that its draws say."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from contracts.dense_layers import TOWN, connections, hard_draw, masked_matrices
from graphdrop import load_dataset
from graphdrop.config import Config
from graphdrop.data.synthetic import synthetic_graph
from graphdrop.draws import SOURCE_ONLY
from graphdrop.estimators import ARM
from graphdrop.inference import predict
from graphdrop.nn.propagation import HOP_SHIFT, MixedOrderPropagation
from graphdrop.nn.sampled import sampled
from graphdrop.rates import LearnedRate
from graphdrop.samplers import (
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


def test_arm_reaches_the_rate_of_hard_masks_without_bias():
    edges, x = torch.tensor([[0, 1], [1, 0]]), torch.tensor([[1.0], [3.0]])
    model = nn.Sequential()
    model.add_module("layer", MixedOrderPropagation(1, DropNode(LearnedRate(0.7)), estimator=ARM()))
    model.forward = lambda x, edge_index: model.layer(x, edge_index).square().sum(0)
    engine, (parameter,) = sampled(model), model.parameters()

    def outcome(kept: Tensor) -> Tensor:
        state = kept[:, None] * x
        return ((state + state.mean()) / 2).square().sum()

    keep = torch.tensor(0.7, requires_grad=True)
    chances = [(keep, 1.0), (1 - keep, 0.0)]
    exact = sum(p * q * outcome(torch.tensor([a, b])) for p, a in chances for q, b in chances)
    exact.backward()
    wanted = float(keep.grad) * 0.7 * 0.3  # with respect to the logit
    found = []
    for _ in range(400):
        parameter.grad = None
        engine.backward(lambda: model(x, edges).sum())
        found.append(float(parameter.grad))
    found = torch.tensor(found)
    assert abs(float(found.mean()) - wanted) < 4 * float(found.std()) / 20


def test_what_it_cannot_sample_or_divide_is_refused():
    with pytest.raises(ValueError, match=r"orders is -1; it takes a number of at least 0"):
        MixedOrderPropagation(-1)
    for sampler in (RandomWalk(0.2), GraphDropConnect(0.2, pairs=True)):
        with pytest.raises(ValueError, match="a propagation takes DropNode, DropOut, DropEdge or"):
            MixedOrderPropagation(1, sampler)
    trainer = trained("PROPAGATION-NS")
    with pytest.raises(ValueError, match=r"propagates all features .* Predict without layerwise"):
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
    assert propagation.sample_dropout
    assert list(trainer.engine.drop_rates()) == ["input_propagation"]
    assert all(line["agree"] > 0.0 for line in trainer.journal.lines)
    weights = [p.detach() for p in trainer.model.parameters() if p.dim() > 1]
    squares = sum(float(weight.square().sum()) for weight in weights)
    assert trainer.objective.l2([]).item() == pytest.approx(squares, rel=1e-5)


def test_propagated_features_have_their_own_normalization_and_dropout():
    model = trained("PROPAGATION-NS", norm_layer="batch", dropout=0.9, input_dropout=0.0).model
    assert isinstance(model.input_norm, torch.nn.BatchNorm1d)
    seen: list[torch.Tensor] = []
    model.convs[0].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    model.train()(DATA.data.x, DATA.data.edge_index)
    (given,) = seen  # normalized over the nodes, and nothing is dropped
    assert torch.allclose(given.mean(0), model.input_norm.bias, atol=1e-5)
    assert (given != 0.0).all()
    model.input_dropout = None
    model(DATA.data.x, DATA.data.edge_index)
    assert (seen[1] == 0.0).double().mean() > 0.5


def test_features_without_masks_are_propagated_once():
    layer = MixedOrderPropagation(2, DropNode(0.5))
    layer.ask(KEEP_ALL, 0)
    data = Data(x=X, edge_index=TOWN.edge_index)
    first, second = (layer(data.x, data.edge_index) for _ in range(2))
    assert first is second
    changed = layer(data.x.clone(), data.edge_index)
    assert changed is not first
    torch.testing.assert_close(changed, first)
