"""`AttachContract`: what `attach` promises for every layer, held to PyG's own message hooks.

The truth is a copy of the model to which nothing is attached. A hook of PyG's multiplies each of
its messages by an entry of the materialized mask, found by the two ends of the message's edge.
"""

import copy
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn.conv import MessagePassing

from contracts.dense_layers import TOWN
from contracts.masked_sums import normal
from graphdrop import ARM
from graphdrop.graph import Graph
from graphdrop.kernels.reference import draw_values, materialize
from graphdrop.nn.attach import Handle, attach
from graphdrop.sampling.rates import LearnedRate
from graphdrop.sampling.samplers import Draw, GraphDropConnect

IN, OUT = 6, 4
KEEP = 0.6
X = normal(TOWN.num_nodes, IN, seed=1)
EDGES = TOWN.edge_index
"""Both directions, one-way edges, two parallels, a self-loop, an isolated node."""
HARD, RELAXED = Draw(3, 4), Draw(3, 4, temperature=0.67)


def two_blocks() -> GraphDropConnect:
    return GraphDropConnect(LearnedRate(KEEP), blocks=2, first_blocks=2)


class Written:
    """A copy of a model whose messages are multiplied by masks that are written out.

    Args:
        handle: of the attached model, whose samplers are asked for the masks.
        draw: what they draw, or `None` for the expectation.
        apart: the layers whose destinations are other nodes than their sources.
    """

    def __init__(self, handle: Handle, draw: Draw | None, apart: Sequence[str] = ()) -> None:
        self.model: Any = copy.deepcopy(handle.model)
        Handle(self.model).remove()
        self.draw = draw
        self.centred = {name: torch.zeros((), dtype=torch.float64) for name in handle.layers}
        """The sum of `u - 1/2` over all draws of a layer; all are distinct."""
        self.dropped = 0
        for name, masked in handle.layers.items():
            self._hook(name, masked, name in apart)

    def _hook(self, name: str, masked: Any, apart: bool) -> None:
        layer = self.model.get_submodule(name)
        layer.decomposed_layers = 1
        calls: list[tuple[Graph, Tensor]] = []

        def begin(_layer: nn.Module, inputs: Any) -> None:
            calls.append(_graph_and_places(inputs[0], apart))

        def multiply(_layer: nn.Module, _inputs: Any, sent: Tensor) -> Tensor:
            graph, places = calls[-1]
            number = masked.number | (len(calls) - 1) << 32
            mask = masked.sampler.mask(graph, self.draw, number)
            features = sent[0].numel() if len(sent) else 2
            if self.draw is not None and len(sent):
                values = draw_values(
                    graph, replace(mask, antithetic=False), features, torch.arange(graph.num_edges)
                )
                self.centred[name] += ((values.double() + 0.5) / 2**16 - 0.5).sum()
            written = materialize(graph, mask, features)[places]
            if masked.sampler.rescale:
                written = written / torch.sigmoid(mask.keep_logit)
            self.dropped += int((written < 0.5).sum())
            return sent * written.view(sent.shape)

        layer.register_propagate_forward_pre_hook(begin)
        layer.register_message_forward_hook(multiply)


def _graph_and_places(edges: Tensor, apart: bool) -> tuple[Graph, Tensor]:
    """The edges as a graph, and the number in it of each of them."""
    both = list(zip(edges[1].tolist(), edges[0].tolist(), strict=True))
    rank: Counter[tuple[int, int]] = Counter()
    named = []
    for ends in both:
        named.append((*ends, rank[ends]))
        rank[ends] += 1
    graph = Graph.from_edge_index(edges, normalization="none")
    if apart:
        other_ids = torch.arange(graph.num_dst, dtype=torch.int32) + (1 << 30)
        graph = replace(graph, dst_ids=other_ids)
    place = {name: number for number, name in enumerate(sorted(named))}
    return graph, torch.tensor([place[name] for name in named], dtype=torch.long)


class AttachContract(ABC):
    """A subclass makes its layer and says which path it takes."""

    kernel = False
    """Whether the masked sum is made by our kernel, without messages."""

    @abstractmethod
    def layer(self) -> MessagePassing:
        """A layer for features `X`."""

    def call(self, layer: Any) -> Tensor:
        out: Tensor = layer(X, EDGES)
        return out

    def written(self, handle: Handle, draw: Draw | None) -> tuple[Tensor, Written]:
        """The output under masks that are written out."""
        written = Written(handle, draw)
        return self.call(written.model), written

    def attached(self, **options: Any) -> Handle:
        return attach(self.layer(), two_blocks(), **options)

    def sampled(self, handle: Handle, draw: Draw | None) -> Tensor:
        with handle.drawing(draw):
            return self.call(handle.model)

    # The contract

    def test_every_message_is_multiplied_by_its_mask(self) -> None:
        handle = self.attached()
        wanted, written = self.written(handle, HARD)
        torch.testing.assert_close(self.sampled(handle, HARD), wanted, rtol=1e-4, atol=1e-5)
        assert written.dropped > 0
        plain = self.call(_without(handle))
        assert not torch.allclose(wanted, plain, rtol=1e-2, atol=1e-3)

    def test_relaxed_masks_pass_the_gradient_to_rates_and_weights(self) -> None:
        handle = self.attached()
        wanted, written = self.written(handle, RELAXED)
        found, gradient = self.sampled(handle, RELAXED), normal(*wanted.shape, seed=5)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        rate = list(handle.parameters())
        slope = torch.autograd.grad(wanted, rate, gradient, retain_graph=True)
        assert all(bool(each != 0.0) for each in slope)
        torch.testing.assert_close(
            torch.autograd.grad(found, rate, gradient, retain_graph=True),
            slope,
            rtol=1e-3,
            atol=1e-4,
        )
        own = dict(handle.model.named_parameters())
        pairs = [(own[name], parameter) for name, parameter in written.model.named_parameters()]
        if pairs:
            ours, theirs = zip(*pairs, strict=True)
            torch.testing.assert_close(
                torch.autograd.grad(found, ours, gradient),
                torch.autograd.grad(wanted, theirs, gradient),
                rtol=1e-3,
                atol=1e-4,
            )

    def test_arm_weighs_the_two_passes_by_the_sum_of_all_draws(self) -> None:
        handle = self.attached(estimator=ARM(), seed=HARD.seed)
        (parameter,) = handle.parameters()
        target = normal(TOWN.num_nodes, OUT, seed=6)

        def loss(out: Tensor) -> Tensor:
            return (out - target).square().mean()

        draw = Draw(HARD.seed, 0)
        (one, first), (other, _) = (self.written(handle, d) for d in (draw, draw.opposite()))
        weight = first.centred[""]
        returned = handle.backward(lambda: loss(self.call(handle.model)))
        torch.testing.assert_close(returned, loss(one).detach(), rtol=1e-4, atol=1e-5)
        assert parameter.grad is not None
        assert parameter.grad != 0.0
        torch.testing.assert_close(
            parameter.grad.double(),
            (loss(one) - loss(other)).detach().double() * weight,
            rtol=1e-3,
            atol=1e-4,
        )

    def test_evaluation_multiplies_messages_by_the_expected_keep_probability(self) -> None:
        handle = self.attached()
        handle.model.eval()
        wanted, _ = self.written(handle, None)
        torch.testing.assert_close(self.call(handle.model), wanted, rtol=1e-4, atol=1e-5)
        assert torch.equal(self.call(handle.model), self.call(handle.model))

    def test_training_draws_afresh_and_the_same_draw_gives_the_same_bits(self) -> None:
        handle = self.attached(seed=7)
        steps = [self.call(handle.model) for _ in range(3)]
        assert not torch.equal(steps[0], steps[1])
        assert not torch.equal(steps[1], steps[2])
        for step, found in enumerate(steps):
            draw = Draw(7, step, temperature=0.67)
            assert torch.equal(self.sampled(handle, draw), found)

    def test_removal_restores_the_layer_bit_for_bit(self) -> None:
        layer = self.layer()
        before, state = self.call(layer), layer.state_dict()
        kept = {name: vars(layer)[name] for name in vars(layer) if name != "_modules"}
        handle = attach(layer, two_blocks())
        assert not torch.equal(self.call(layer), before)
        handle.remove()
        assert torch.equal(self.call(layer), before)
        assert list(layer.state_dict()) == list(state)
        assert {name: vars(layer)[name] for name in vars(layer) if name != "_modules"} == kept

    def test_it_takes_the_path_that_the_page_says(self) -> None:
        handle = self.attached()
        count = _counting(handle.model)
        self.call(handle.model)
        assert (count() == 0) == self.kernel


def _without(handle: Handle) -> Any:
    model = copy.deepcopy(handle.model)
    Handle(model).remove()
    return model


def _counting(layer: Any) -> Callable[[], int]:
    """Counts the calls of a layer's `message` from now on."""
    counted, message = [], layer.message

    def counting(*arguments: Any, **options: Any) -> Tensor:
        counted.append(1)
        out: Tensor = message(*arguments, **options)
        return out

    layer.message = counting
    return lambda: len(counted)
