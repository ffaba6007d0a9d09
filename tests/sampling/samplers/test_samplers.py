"""Every sampler keeps the contract; what differs is which connections share a draw."""

from collections.abc import Hashable
from itertools import product

import pytest
import torch

from contracts.dense_layers import TOWN, connections
from contracts.sampler_contract import (
    FEATURES,
    DrawsOfAnother,
    Place,
    SamplerContract,
    block_of,
    town,
)
from graphdrop import GCN
from graphdrop.kernels.reference import materialize
from graphdrop.sampling.rates import BetaBernoulliRate, Rate
from graphdrop.sampling.samplers import (
    Draw,
    DropEdge,
    DropNode,
    DropOut,
    GraphDropConnect,
    RandomWalk,
    Sampler,
)


class TestDropOut(SamplerContract):
    rescale = True

    def sampler(self, rate: Rate) -> Sampler:
        return DropOut(rate)

    def draw_of(self, place: Place) -> Hashable:
        return place.connection.source, place.feature


class TestDropOutWithoutRescaling(DrawsOfAnother, TestDropOut):
    rescale = False

    def sampler(self, rate: Rate) -> Sampler:
        return DropOut(rate, rescale=False)


class TestDropNode(SamplerContract):
    def sampler(self, rate: Rate) -> Sampler:
        return DropNode(rate)

    def draw_of(self, place: Place) -> Hashable:
        return place.connection.source


class TestDropNodeWithRescaling(DrawsOfAnother, TestDropNode):
    rescale = True

    def sampler(self, rate: Rate) -> Sampler:
        return DropNode(rate, rescale=True)


class TestDropEdge(SamplerContract):
    def sampler(self, rate: Rate) -> Sampler:
        return DropEdge(rate)

    def draw_of(self, place: Place) -> Hashable:
        destination, source, rank, _ = place.connection
        return frozenset((destination, source)), rank


class TestDropEdgeInOneDirection(SamplerContract):
    def sampler(self, rate: Rate) -> Sampler:
        return DropEdge(rate, symmetric=False)

    def draw_of(self, place: Place) -> Hashable:
        return place.connection


class TestDropEdgeThatKeepsSelfLoops(TestDropEdge):
    def sampler(self, rate: Rate) -> Sampler:
        return DropEdge(rate, self_loops=False)

    def draw_of(self, place: Place) -> Hashable:
        return None if place.connection.is_loop else super().draw_of(place)


class TestDropEdgeBeforeNormalization(DrawsOfAnother, TestDropEdgeThatKeepsSelfLoops):
    before_normalization = True
    # a matrix that is normalized after its masking is not linear in the mask
    test_the_mean_of_samples_approaches_the_expectation = None

    def sampler(self, rate: Rate) -> Sampler:
        return DropEdge(rate, before_normalization=True)


class TestGraphDropConnectWithOneBlock(DrawsOfAnother, TestDropEdgeInOneDirection):
    def sampler(self, rate: Rate) -> Sampler:
        return GraphDropConnect(rate, blocks=1)


class TestGraphDropConnectWithTwoBlocks(SamplerContract):
    blocks = 2

    def sampler(self, rate: Rate) -> Sampler:
        return GraphDropConnect(rate, blocks=self.blocks)

    def draw_of(self, place: Place) -> Hashable:
        return place.connection, block_of(place.feature, self.blocks)


class TestGraphDropConnectPerFeature(SamplerContract):
    def sampler(self, rate: Rate) -> Sampler:
        return GraphDropConnect(rate, blocks=None)

    def draw_of(self, place: Place) -> Hashable:
        return place.connection, place.feature


class TestGraphDropConnectPerPair(SamplerContract):
    pairs = True

    def sampler(self, rate: Rate) -> Sampler:
        return GraphDropConnect(rate, pairs=True)

    def draw_of(self, place: Place) -> Hashable:
        return place


class TestGraphDropConnectInBothDirections(SamplerContract):
    def sampler(self, rate: Rate) -> Sampler:
        return GraphDropConnect(rate, blocks=2, symmetric=True, self_loops=False)

    def draw_of(self, place: Place) -> Hashable:
        destination, source, rank, _ = place.connection
        if destination == source:
            return None
        return frozenset((destination, source)), rank, block_of(place.feature, 2)


class TestGraphDropConnectBeforeNormalization(DrawsOfAnother, TestGraphDropConnectPerFeature):
    before_normalization = True
    # a matrix that is normalized after its masking is not linear in the mask
    test_the_mean_of_samples_approaches_the_expectation = None

    def sampler(self, rate: Rate) -> Sampler:
        return GraphDropConnect(rate, blocks=None, before_normalization=True)

    def draw_of(self, place: Place) -> Hashable:
        return None if place.connection.is_loop else super().draw_of(place)


RATE = BetaBernoulliRate()
LOOPS = torch.tensor([connection.is_loop for connection in connections(TOWN)])


@pytest.mark.parametrize(
    ("sampler", "another"),
    [
        (DropOut(RATE, rescale=False), DropOut(RATE)),
        (DropNode(RATE, rescale=True), DropNode(RATE)),
        (DropEdge(RATE, before_normalization=True), DropEdge(RATE, self_loops=False)),
        (GraphDropConnect(RATE, blocks=1), DropEdge(RATE, symmetric=False)),
        (
            GraphDropConnect(RATE, blocks=None, before_normalization=True),
            GraphDropConnect(RATE, blocks=None),
        ),
        (RandomWalk(RATE), DropEdge(RATE, symmetric=False)),
    ],
)
def test_some_samplers_draw_as_others_do(sampler: Sampler, another: Sampler) -> None:
    keys = [(7, 0, 0, 0), (8, 0, 0, 0), (7, 1, 0, 0), (7, 0, 1, 0), (7, 0, 0, 1)]
    for (seed, step, sample, layer), temperature, opposite in product(
        keys, (None, 0.67), (False, True)
    ):
        draw = Draw(seed, step, sample, temperature=temperature)
        draw = draw.opposite() if opposite else draw
        found, wanted = (
            materialize(town(), each.mask(town(), draw, layer), FEATURES)
            for each in (sampler, another)
        )
        # before normalization the identity is added behind the masks
        compared = ~LOOPS if sampler.before_normalization else slice(None)
        assert torch.equal(found[compared], wanted[compared])


@pytest.mark.parametrize(
    "changed",
    [
        {"blocks": 4},
        {"symmetric": True},
        {"self_loops": False},
        {"before_normalization": True},
        {"pairs": True},
    ],
    ids=str,
)
def test_a_state_is_loaded_by_a_sampler_of_the_same_settings_alone(changed):
    def model(**settings):
        return GCN(4, 4, 2, 3, GraphDropConnect(0.2, **({"blocks": 2} | settings)))

    state = model().state_dict()
    model().load_state_dict(state)
    with pytest.raises(ValueError, match=r"in this model and .* in the state"):
        model(**changed).load_state_dict(state)


def test_a_state_of_another_sampler_or_without_settings_is_refused():
    state = DropEdge(0.2, symmetric=False).state_dict()
    with pytest.raises(ValueError, match="sampler is 'GraphDropConnect' in this model and 'DropEd"):
        GraphDropConnect(0.2, blocks=1).load_state_dict(state)
    with pytest.raises(ValueError, match="settings that are none"):
        DropEdge(0.2).load_state_dict(state | {"_extra_state": torch.ones(3, dtype=torch.uint8)})
