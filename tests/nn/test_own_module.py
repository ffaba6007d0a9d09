"""A module of one's own with `SampledGCNConv` layers draws, learns and predicts as a `GCN` does."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from contracts.dense_layers import TOWN
from contracts.masked_sums import normal
from graphdrop import ARM, GCN, predict
from graphdrop.nn import SampledGCNConv, sampled
from graphdrop.sampling.rates import BetaBernoulliRate
from graphdrop.sampling.samplers import Draw, DropEdge, GraphDropConnect, Sampler

WIDTH = 4
DATA = Data(x=normal(TOWN.num_nodes, WIDTH), edge_index=TOWN.edge_index)


class Own(nn.Module):
    def __init__(self, make: Callable[[], Sampler | None], first: Sampler | None = None) -> None:
        super().__init__()
        self.one = SampledGCNConv(WIDTH, WIDTH, first or make())
        self.two = SampledGCNConv(WIDTH, WIDTH, make())

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.two(self.one(x, edge_index).relu(), edge_index)
        return out


def learned() -> Sampler:
    return GraphDropConnect(BetaBernoulliRate(), blocks=2)


def outputs_of_equal_layers(model: Own) -> list[Tensor]:
    """What both layers make of one input with the same weights: nothing but masks differs."""
    model.two.load_state_dict(
        {n: v for n, v in model.one.state_dict().items() if n != "stream"}, strict=False
    )
    return [layer(DATA.x, DATA.edge_index).detach() for layer in (model.one, model.two)]


def test_its_layers_draw_different_masks_in_a_plain_loop_and_through_the_engine() -> None:
    model = Own(lambda: DropEdge(0.5))
    for _ in range(3):
        one, two = outputs_of_equal_layers(model)
        assert not torch.allclose(one, two)
    with sampled(model).drawing(Draw(1, 2)):
        one, two = outputs_of_equal_layers(model)
    assert not torch.allclose(one, two)


def test_with_the_same_weights_and_the_same_draw_it_is_our_own_network() -> None:
    network, model = GCN(WIDTH, WIDTH, 2, WIDTH, learned()), Own(learned)
    for theirs, own in zip(network.layers, (model.one, model.two), strict=True):
        own.sampler.blocks = theirs.sampler.blocks
        own.load_state_dict(theirs.state_dict(), strict=False)
    one, other = (predict(each, DATA, 5, seed=3) for each in (network, model))
    torch.testing.assert_close(other.probabilities, one.probabilities)
    torch.testing.assert_close(sampled(model).kl(), network.kl())
    assert list(sampled(model).drop_rates().values()) == list(network.drop_rates().values())


def test_rates_are_learned_where_the_first_layer_keeps_all() -> None:
    class Plain(Own):
        def __init__(self) -> None:
            super().__init__(learned)
            self.one = SampledGCNConv(WIDTH, WIDTH)

    for estimator in (None, ARM()):
        model = Plain()
        engine = sampled(model)
        if estimator is not None:
            engine.estimator = estimator
        engine.backward(lambda model=model: model(DATA.x, DATA.edge_index).square().mean())
        rates = list(model.two.sampler.parameters())
        assert rates
        assert all(bool(rate.grad != 0.0) for rate in rates)


def test_a_sampler_that_a_layer_was_built_with_cannot_be_removed() -> None:
    with pytest.raises(ValueError, match="was built with its sampler, which cannot be removed"):
        sampled(Own(learned)).remove()
