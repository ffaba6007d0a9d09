"""`SamplerContract`: what every sampler promises, as tests that each sampler's test inherits."""

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from contracts.dense_layers import TOWN, Connection, connections, dense_layer, masked_matrices
from contracts.masked_sums import normal
from contracts.single_layers import one_pass
from graphdrop.graph import Graph
from graphdrop.graph.masks import Mask
from graphdrop.kernels.reference import materialize
from graphdrop.nn import GCN, SampledGCNConv
from graphdrop.sampling.rates import BetaBernoulliRate, FixedRate, LearnedRate, Rate
from graphdrop.sampling.samplers import Draw, Sampler

FEATURES, OUTPUTS = 5, 3
KEEP = 0.75
NORM = "sym"
KEYS = 200
"""How many steps the statistics are taken over."""


@cache
def town() -> Graph:
    """The graph on which samplers are tried."""
    return TOWN.graph(NORM)


class Place(NamedTuple):
    """Where a mask is applied: a connection, an input feature and an output feature."""

    connection: Connection
    feature: int
    output: int


def make_rate(name: str) -> Rate:
    """A rate whose mean is `KEEP`."""
    if name == "fixed":
        return FixedRate(keep=KEEP)
    if name == "learned":
        return LearnedRate(KEEP)
    rate = BetaBernoulliRate(rate_draw="mask" if name == "beta per mask" else "layer")
    rate.a, rate.b = 3.0, 1.0  # the mean of Kumaraswamy(a, 1) is a / (a + 1)
    return rate


def block_of(feature: int, blocks: int) -> int:
    """The block of a feature, of contiguous ones whose sizes differ by at most 1."""
    parts = np.array_split(np.arange(FEATURES), blocks)
    return next(number for number, part in enumerate(parts) if feature in part)


class SamplerContract(ABC):
    """A subclass makes its sampler and says which places share a draw."""

    pairs = False
    rescale = False
    before_normalization = False

    @abstractmethod
    def sampler(self, rate: Rate) -> Sampler:
        """The sampler under test, at this rate."""

    @abstractmethod
    def draw_of(self, place: Place) -> Hashable:
        """A name for the draw that is read here: places share a draw where the names are equal.

        `None` where nothing is ever dropped.
        """

    # What a sampler does, seen from outside

    def places(self) -> list[Place]:
        return [
            Place(connection, feature, output)
            for connection in connections(TOWN)
            for feature in range(FEATURES)
            for output in range(OUTPUTS)
        ]

    def groups(self) -> list[list[int]]:
        """The numbers of the places that share a draw, for every draw."""
        named: dict[Hashable, list[int]] = {}
        for number, place in enumerate(self.places()):
            name = self.draw_of(place)
            if name is not None:
                named.setdefault(name, []).append(number)
        return list(named.values())

    def mask(
        self,
        sampler: Sampler,
        draw: Draw | None,
        layer: int = 0,
        graph: Graph | None = None,
        features: int = FEATURES,
    ) -> Tensor:
        """A layer's mask written out in float64, `[connections, features, OUTPUTS]`."""
        graph = graph or town()
        return self.written(sampler.mask(graph, draw, layer), graph, features)

    def written(self, mask: Mask, graph: Graph, features: int = FEATURES) -> Tensor:
        width = features * (OUTPUTS if self.pairs else 1)
        values = materialize(graph, mask, width, dtype=torch.float64)
        values = values.view(graph.num_edges, features, -1)
        return values.expand(graph.num_edges, features, OUTPUTS)

    def matrices(self, mask: Tensor, scale: float | Tensor = 1.0) -> Tensor:
        """The matrix of each pair of features, `[features, OUTPUTS, n, n]`."""
        return scale * masked_matrices(TOWN, NORM, mask, before=self.before_normalization)

    def scale(self, sampler: Sampler, draw: Draw, layer: int = 0) -> Tensor:
        """What a kept connection is multiplied by."""
        logit = sampler.mask(town(), draw, layer).keep_logit.double()
        return 1.0 / torch.sigmoid(logit) if self.rescale else torch.ones(())

    def layer(self, rate: str) -> SampledGCNConv:
        return SampledGCNConv(FEATURES, OUTPUTS, self.sampler(make_rate(rate)), bias=False)

    def probe(self, layer: SampledGCNConv, draw: Draw | None) -> Tensor:
        """The matrices that a layer multiplies by, found by feeding it one entry at a time."""
        graph, nodes = town(), TOWN.num_nodes
        found = torch.empty(FEATURES, OUTPUTS, nodes, nodes, dtype=torch.float64)
        weight = layer.weight.detach().clone()
        with torch.no_grad():
            layer.weight.fill_(1.0)
            for source in range(nodes):
                for feature in range(FEATURES):
                    x = torch.zeros(nodes, FEATURES)
                    x[source, feature] = 1.0
                    found[feature, :, :, source] = one_pass(layer, x, graph, draw).T.double()
            layer.weight.copy_(weight)
        return found

    # The contract. How a rate is drawn and how a kind of mask is summed is the same code under
    # every sampler, so that a test takes the rate and the kind that ask the most of its statement.

    @pytest.mark.parametrize(("rate", "temperature"), [("fixed", None), ("learned", 0.67)])
    def test_a_layer_multiplies_by_the_mask_that_the_sampler_describes(
        self, rate: str, temperature: float | None
    ) -> None:
        layer = self.layer(rate)
        assert layer.sampler is not None
        least = 1.0
        for step in range(3):  # one draw of a wide rate may keep everything
            draw = Draw(1, step, temperature=temperature)
            mask, scale = self.mask(layer.sampler, draw), self.scale(layer.sampler, draw)
            torch.testing.assert_close(
                self.probe(layer, draw), self.matrices(mask, scale), rtol=1e-5, atol=1e-6
            )
            least = min(least, mask.min().item())
        assert least < 1.0

    def test_the_backward_pass_uses_the_draw_of_the_forward_pass(self) -> None:
        layer, draw = self.layer("fixed"), Draw(5, 6)
        matrices = self.probe(layer, draw)
        x = normal(TOWN.num_nodes, FEATURES, seed=1).requires_grad_()
        gradient = normal(TOWN.num_nodes, OUTPUTS, seed=2)
        one_pass(layer, x, town(), draw).backward(gradient)
        weight = layer.weight.detach().double()
        to_x = torch.einsum("ijvu,ij,vj->ui", matrices, weight, gradient.double())
        to_weight = torch.einsum("ijvu,ui,vj->ij", matrices, x.detach().double(), gradient.double())
        assert x.grad is not None
        assert layer.weight.grad is not None
        torch.testing.assert_close(x.grad.double(), to_x, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(layer.weight.grad.double(), to_weight, rtol=1e-5, atol=1e-6)

    def test_a_relaxed_mask_passes_a_gradient_to_the_rate(self) -> None:
        layer, draw = self.layer("beta"), Draw(3, 4, temperature=0.67)
        x, graph = normal(TOWN.num_nodes, FEATURES, seed=1), town()
        gradient = normal(TOWN.num_nodes, OUTPUTS, seed=2)
        assert layer.sampler is not None
        parameters = list(layer.sampler.rate.parameters())
        found = torch.autograd.grad(one_pass(layer, x, graph, draw), parameters, gradient)
        mask, scale = self.mask(layer.sampler, draw), self.scale(layer.sampler, draw)
        written = dense_layer(self.matrices(mask, scale), x, layer.weight.detach())
        wanted = torch.autograd.grad(written, parameters, gradient.double())
        assert all(bool(slope != 0.0) for slope in wanted)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)

    def test_connections_are_kept_at_the_mean_rate(self) -> None:
        values, keep = residuals(type(self), "fixed")
        share = (values + keep[:, None]).mean(1)
        error = float(share.std()) / KEYS**0.5
        assert 0.0 < error < 0.02
        assert abs(float(share.mean()) - KEEP) < 4.0 * error

    def test_connections_share_a_draw_wherever_it_is_promised(self) -> None:
        sampler = self.sampler(FixedRate(keep=KEEP))
        shares_with = torch.full((len(self.places()),), -1)
        for group in self.groups():
            shares_with[group] = group[0]
        masked = shares_with >= 0
        for step in range(20):
            mask = self.mask(sampler, Draw(9, step)).flatten()
            assert torch.equal(mask[masked], mask[shares_with[masked]])
            assert bool((mask[~masked] == 1.0).all())

    def test_connections_draw_independently_wherever_sharing_is_not_promised(self) -> None:
        values, keep = residuals(type(self), "beta")
        scores = _correlation(values, values) * KEYS**0.5
        between = scores[~torch.eye(len(scores), dtype=torch.bool)]
        assert float(between.abs().max()) < 6.0
        # draws that are independent given their rate make the scores' mean square this
        variance = keep * (1.0 - keep)
        expected = float(variance.square().mean() / variance.mean() ** 2)
        pairs = len(between) // 2
        assert abs(float(between.square().mean()) - expected) < 5.0 * (2.0 / pairs) ** 0.5 + 0.05

    def test_a_draw_is_fresh_for_every_seed_step_layer_and_sample(self) -> None:
        one = residuals(type(self), "fixed").values
        others = {"step": one.roll(1, 0)} | {
            name: residuals(type(self), "fixed", **{name: another}).values
            for name, another in {"seed": 8, "layer": 1, "sample": 1}.items()
        }
        for name, two in others.items():
            scores = _correlation(one, two) * KEYS**0.5
            assert float(scores.abs().max()) < 6.0, name
            assert abs(float(scores.diagonal().sum())) < 4.0 * len(scores) ** 0.5, name

    def test_the_opposite_draw_turns_every_uniform_round(self) -> None:
        sampler, draw = self.sampler(FixedRate(keep=0.5)), Draw(2, 3)
        masked = sorted(place for group in self.groups() for place in group)
        one, other = (
            self.mask(sampler, each).flatten()[masked] for each in (draw, draw.opposite())
        )
        assert torch.equal(one, 1.0 - other)

    def test_layers_of_a_network_use_their_own_masks_and_no_one_elses(self) -> None:
        model = GCN(
            FEATURES,
            OUTPUTS,
            3,
            OUTPUTS,
            self.sampler(make_rate("beta")),
            normalization=NORM,
            bias=False,
        )
        x, draw = normal(TOWN.num_nodes, FEATURES, seed=4), Draw(6, 7, temperature=0.67)
        hidden = x.double()
        for number, layer in enumerate(model.layers):
            assert isinstance(layer, SampledGCNConv)
            assert layer.sampler is not None
            mask = self.mask(layer.sampler, draw, number, features=layer.in_channels)
            scale = self.scale(layer.sampler, draw, number)
            hidden = dense_layer(self.matrices(mask, scale), hidden, layer.weight)
            hidden = hidden if number == 2 else hidden.relu()
        torch.testing.assert_close(
            model(x, town(), draw=draw).double(), hidden, rtol=1e-5, atol=1e-5
        )

    def test_renumbered_nodes_that_keep_their_ids_keep_their_draws(self) -> None:
        x, layer, draw = normal(TOWN.num_nodes, FEATURES, seed=5), self.layer("fixed"), Draw(1, 1)
        place = torch.tensor([3, 5, 0, 2, 1, 4])  # where each node stands now
        ids = place.argsort()
        moved = Graph.from_edge_index(
            place[TOWN.edge_index], TOWN.num_nodes, TOWN.edge_weight, normalization=NORM
        )
        named = replace(moved, dst_ids=ids.int(), src_ids=ids.int())
        out = one_pass(layer, x, town(), draw)
        torch.testing.assert_close(one_pass(layer, x[ids], named, draw)[place], out)
        assert not torch.allclose(one_pass(layer, x[ids], moved, draw)[place], out)

    def test_a_part_of_the_graph_sees_the_draws_of_the_whole(self) -> None:
        x, layer = normal(TOWN.num_nodes, FEATURES, seed=6), self.layer("beta")
        draw, graph = Draw(1, 1, temperature=0.67), town()
        assert layer.sampler is not None
        rows = torch.tensor([4, 1, 3])
        part = graph.rows(rows)
        assert part.parent_edge is not None
        assert part.src_ids is not None
        # torch's sigmoid rounds the last few numbers of an array in its own way
        torch.testing.assert_close(
            self.mask(layer.sampler, draw, graph=part),
            self.mask(layer.sampler, draw)[part.parent_edge.long()],
            rtol=1e-14,
            atol=0.0,
        )
        torch.testing.assert_close(
            one_pass(layer, x[part.src_ids], part, draw),
            one_pass(layer, x, graph, draw)[rows],
            rtol=1e-5,
            atol=1e-6,
        )

    def test_without_a_draw_a_layer_uses_the_expectation_of_its_masks(self) -> None:
        layer = self.layer("beta")
        mask = torch.ones(len(connections(TOWN)), FEATURES, OUTPUTS)
        if not self.rescale:
            masked = [self.draw_of(place) is not None for place in self.places()]
            mask[torch.tensor(masked).view(mask.shape)] = KEEP
        torch.testing.assert_close(
            self.probe(layer, None), self.matrices(mask), rtol=1e-5, atol=1e-6
        )

    def test_the_mean_of_samples_approaches_the_expectation(self) -> None:
        layer, x, graph = self.layer("beta"), normal(6, FEATURES, seed=7), town()
        with torch.no_grad():
            samples = torch.stack(
                [one_pass(layer, x, graph, Draw(1, 1, s)) for s in range(KEYS)]
            ).double()
            wanted = one_pass(layer, x, graph, None).double()
        error = samples.std(0) / KEYS**0.5 + 1e-6
        assert float(samples.std(0).max()) > 0.1
        assert float(((samples.mean(0) - wanted) / error).abs().max()) < 4.5


class DrawsOfAnother:
    """Stands before a contract: the draws are another sampler's, and their tests are there.

    `tests/sampling/samplers/test_samplers.py` compares them bit for bit.
    """

    test_connections_are_kept_at_the_mean_rate = None
    test_connections_share_a_draw_wherever_it_is_promised = None
    test_connections_draw_independently_wherever_sharing_is_not_promised = None
    test_a_draw_is_fresh_for_every_seed_step_layer_and_sample = None
    test_a_relaxed_mask_rounds_to_the_hard_one = None
    test_the_opposite_draw_turns_every_uniform_round = None


class Residuals(NamedTuple):
    """Hard masks of `KEYS` steps minus the keep rate of each, `[KEYS, draws]`, and those rates."""

    values: Tensor
    keep: Tensor


@cache
def residuals(
    contract: type[SamplerContract], rate: str, seed: int = 7, layer: int = 0, sample: int = 0
) -> Residuals:
    """The residuals of all distinct draws of a sampler."""
    self = contract()
    sampler, first = self.sampler(make_rate(rate)), [group[0] for group in self.groups()]
    with torch.no_grad():
        masks = [sampler.mask(town(), Draw(seed, step, sample), layer) for step in range(KEYS)]
        keep = torch.stack([mask.keep_logit for mask in masks]).double().sigmoid()
        kept = torch.stack([self.written(mask, town()).flatten()[first] for mask in masks])
    return Residuals(kept - keep[:, None], keep)


def _correlation(one: Tensor, two: Tensor) -> Tensor:
    """Between every column of one and every column of two, whose means are known to be 0."""
    sizes = one.square().sum(0).sqrt()[:, None] * two.square().sum(0).sqrt()
    return one.T @ two / sizes
