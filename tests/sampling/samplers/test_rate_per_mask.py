"""A rate drawn for every mask: what samplers make of it."""

import pytest
import torch
from torch import Tensor

from contracts.masked_sums import normal, power_law_edges
from graphdrop.graph import Graph
from graphdrop.kernels import aggregate
from graphdrop.kernels.reference import materialize
from graphdrop.sampling.rates import BetaBernoulliRate, LearnedRate
from graphdrop.sampling.samplers import Draw, GraphDropConnect

NODES = 60
EDGES = power_law_edges(NODES, 500)
GRAPH = Graph.from_edge_index(EDGES, NODES)
RELAXED = Draw(1, 2, temperature=0.67)


def rate(a: float = 1.5, b: float = 0.97) -> BetaBernoulliRate:
    made = BetaBernoulliRate(rate_draw="mask")
    made.a, made.b = a, b  # type: ignore[assignment]
    return made


def test_hard_masks_are_those_of_a_learned_rate_at_the_mean() -> None:
    drawn, learned = rate(), LearnedRate()
    with torch.no_grad():
        learned.keep_logit.copy_(torch.logit(drawn.mean()))
    masks = [GraphDropConnect(one).mask(GRAPH, Draw(1, 2), 0) for one in (drawn, learned)]
    one, other = (materialize(GRAPH, mask, 4) for mask in masks)
    assert masks[0].table is None
    assert torch.equal(one, other)


def test_the_gradient_for_a_and_b_is_that_of_the_loss_with_the_same_draws() -> None:
    made = rate().double()
    x, target = normal(NODES, 6).double(), normal(NODES, 6, seed=1).double()
    graph = GRAPH.double()

    def loss() -> Tensor:
        mask = GraphDropConnect(made, blocks=2).mask(graph, RELAXED, 0)
        return (aggregate(graph, x, mask) - target).square().mean()

    parameters = list(made.parameters())
    gradients = torch.autograd.grad(loss(), parameters)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        value, ends = parameter.item(), []
        for step in (-1e-4, 1e-4):
            torch.nn.init.constant_(parameter, value + step)
            ends.append(loss().item())
        torch.nn.init.constant_(parameter, value)
        assert gradient.item() == pytest.approx((ends[1] - ends[0]) / 2e-4, rel=1e-4)
