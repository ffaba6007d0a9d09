"""Heterogeneous models: every relation has masks and a rate of its own."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import GATConv, HeteroConv, SAGEConv, to_hetero

from contracts.attach_contract import Written, two_blocks
from contracts.masked_sums import normal
from graphdrop import attach, predict
from graphdrop.nn.attach import Handle
from graphdrop.sampling.rates import BetaBernoulliRate, FixedRate
from graphdrop.sampling.samplers import Draw, DropEdge, GraphDropConnect

IN, OUT = 4, 4
TYPES = (
    ["author", "paper"],
    [("author", "writes", "paper"), ("paper", "by", "author"), ("paper", "cites", "paper")],
)
X = {"author": normal(3, IN, seed=1), "paper": normal(5, IN, seed=2)}
WRITES = torch.tensor([[0, 0, 1, 2, 2, 1], [0, 3, 1, 2, 4, 3]])
EDGES = {
    TYPES[1][0]: WRITES,
    TYPES[1][1]: WRITES.flip(0),
    TYPES[1][2]: torch.tensor([[0, 1, 2, 3, 4, 4], [1, 0, 2, 4, 3, 0]]),
}
RELAXED = Draw(3, 4, temperature=0.67)


class Net(nn.Module):
    def __init__(self, attention: bool) -> None:
        super().__init__()
        width = (-1, -1) if attention else IN
        options = {"add_self_loops": False} if attention else {}
        layer = GATConv if attention else SAGEConv
        self.first, self.second = (layer(width, OUT, **options) for _ in range(2))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.second(self.first(x, edge_index).relu(), edge_index)
        return out


def transformed(attention: bool) -> Any:
    model = to_hetero(Net(attention), TYPES, aggr="sum")
    model(X, EDGES)  # sizes of -1 are found out
    return model


def sampled(model: Any, handle: Handle, draw: Draw) -> Tensor:
    with handle.drawing(draw):
        out: Tensor = model(X, EDGES)["paper"]
    return out


@pytest.mark.parametrize("attention", [False, True], ids=["SAGE", "GAT"])
def test_every_relation_is_masked_with_draws_of_its_own(attention):
    model = transformed(attention)
    handle = attach(model, two_blocks())
    assert len(handle.layers) == 6
    between = [name for name in handle.layers if "cites" not in name]
    found = sampled(model, handle, RELAXED)
    wanted = Written(handle, RELAXED, apart=between).model(X, EDGES)["paper"]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    used = [p for name, m in handle.layers.items() for p in m.sampler.parameters()]
    slopes = torch.autograd.grad(found.square().sum(), used, allow_unused=True)
    reached = [name for name, slope in zip(handle.layers, slopes, strict=True) if slope is not None]
    assert len(reached) == 5  # what papers send to authors last, nobody reads
    assert all(slope is None or bool(slope != 0.0) for slope in slopes)


def test_the_relations_of_the_first_layer_have_the_blocks_of_a_first_layer():
    for model in (transformed(attention=False), HeteroConv({k: SAGEConv(IN, OUT) for k in EDGES})):
        handle = attach(model, GraphDropConnect(BetaBernoulliRate(), blocks=4, first_blocks=2))
        blocks = [masked.sampler.blocks for masked in handle.layers.values()]
        assert blocks == [2, 2, 2, 4, 4, 4][: len(handle.layers)]
        assert len(set(handle.drop_rates().values())) == len(handle.layers)


def test_what_goes_between_two_kinds_of_nodes_is_no_self_loop():
    layer = SAGEConv((IN, IN), OUT, root_weight=False, bias=False)
    handle = attach(layer, DropEdge(FixedRate(keep=1e-6), self_loops=False))
    same_numbers = torch.arange(3).repeat(2, 1)
    with handle.drawing(Draw(0, 0)):
        assert bool((layer((X["author"], X["paper"]), same_numbers) == 0.0).all())
        kept = layer((X["author"], X["author"]), same_numbers)
    assert bool((kept != 0.0).any())


def test_the_first_nodes_of_a_mini_batch_are_the_same_nodes():
    layer = SAGEConv((IN, IN), OUT, root_weight=False, bias=False)
    handle = attach(layer, DropEdge(FixedRate(keep=1e-6), self_loops=False))
    x = X["paper"]
    with handle.drawing(Draw(0, 0)):
        kept = layer((x, x[:3]), torch.arange(3).repeat(2, 1))
    assert kept.shape == (3, OUT)
    assert bool((kept != 0.0).any())


def test_a_hand_made_heterogeneous_model_predicts_through_a_module_that_takes_data():
    class Papers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = HeteroConv({kind: SAGEConv((IN, IN), OUT) for kind in TYPES[1]})

        def forward(self, data: HeteroData) -> Tensor:
            out: Tensor = self.conv(data.x_dict, data.edge_index_dict)["paper"]
            return out

    data = HeteroData()
    for name, x in X.items():
        data[name].x = x
    for kind, edges in EDGES.items():
        data[kind].edge_index = edges
    model = Papers()
    attach(model, two_blocks())
    prediction = predict(model, data, samples=5)
    assert prediction.probabilities.shape == (5, OUT)
    assert float(prediction.deviation.max()) > 1e-3


def test_a_model_that_was_attached_before_it_was_transformed_is_refused():
    model = Net(attention=False)
    attach(model, two_blocks())
    with pytest.raises(ValueError, match="attach to the whole model at once"):
        Handle(to_hetero(model, TYPES))
