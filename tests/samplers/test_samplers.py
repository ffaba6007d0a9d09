"""Every sampler keeps the contract; what differs is which connections share a draw."""

from collections.abc import Hashable

from contracts.sampler_contract import Place, SamplerContract, block_of
from graphdrop.rates import Rate
from graphdrop.samplers import DropEdge, DropNode, DropOut, GraphDropConnect, Sampler


class TestDropOut(SamplerContract):
    rescale = True

    def sampler(self, rate: Rate) -> Sampler:
        return DropOut(rate)

    def draw_of(self, place: Place) -> Hashable:
        return place.connection.source, place.feature


class TestDropOutWithoutRescaling(TestDropOut):
    rescale = False

    def sampler(self, rate: Rate) -> Sampler:
        return DropOut(rate, rescale=False)


class TestDropNode(SamplerContract):
    def sampler(self, rate: Rate) -> Sampler:
        return DropNode(rate)

    def draw_of(self, place: Place) -> Hashable:
        return place.connection.source


class TestDropNodeWithRescaling(TestDropNode):
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


class TestDropEdgeBeforeNormalization(TestDropEdgeThatKeepsSelfLoops):
    before_normalization = True
    # a matrix that is normalized after its masking is not linear in the mask
    test_the_mean_of_samples_approaches_the_expectation = None

    def sampler(self, rate: Rate) -> Sampler:
        return DropEdge(rate, before_normalization=True)


class TestGraphDropConnectWithOneBlock(TestDropEdgeInOneDirection):
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


class TestGraphDropConnectBeforeNormalization(TestGraphDropConnectPerFeature):
    before_normalization = True
    # a matrix that is normalized after its masking is not linear in the mask
    test_the_mean_of_samples_approaches_the_expectation = None

    def sampler(self, rate: Rate) -> Sampler:
        return GraphDropConnect(rate, blocks=None, before_normalization=True)

    def draw_of(self, place: Place) -> Hashable:
        return None if place.connection.is_loop else super().draw_of(place)
