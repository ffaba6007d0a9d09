"""Averaged over 10^5 draws, the estimators give the gradient that enumeration gives."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from contracts.toy_network import EDGES, LABELS, NODES, Toy, X, copies
from graphdrop.graph.masks import uniforms
from graphdrop.kernels.reference import draw_values
from graphdrop.kernels.sums import DrawSums, distinct_edges
from graphdrop.sampling.estimators import ARM, REINFORCE, DisARM, Estimator, LayerDraws
from graphdrop.sampling.rates import BetaBernoulliRate, LearnedRate
from graphdrop.sampling.rates.beta_bernoulli import RateDraw
from graphdrop.sampling.samplers import Draw, UsedMask

COPIES = 100_000
DRAW = Draw(seed=1, step=0)
KEEPS = (0.6, 0.4)
ESTIMATORS: dict[str, Callable[[], Estimator]] = {
    "ARM": ARM,
    "DisARM": DisARM,
    "REINFORCE": REINFORCE,
}
SHARINGS = ("asymmetric", "symmetric", "DropEdge", "DropOut", "node sampling", "random walk")

many_copies = cache(lambda: copies(COPIES))


def each_distinct_draw(drawn: UsedMask) -> Tensor:
    return distinct_edges(drawn.graph, drawn.mask)


@cache
def sums_by_copy(drawn: UsedMask, counted: Callable[[UsedMask], Tensor]) -> DrawSums:
    """Sums over the draws of the counted edges, `[COPIES]` each."""
    mask, edges = replace(drawn.mask, antithetic=False), counted(drawn)
    values = draw_values(drawn.graph, mask, drawn.features, edges)
    threshold = round(65536 * float(torch.sigmoid(-mask.keep_logit.detach().double())))
    parts = (torch.ones_like(values), values, values >= threshold, 65535 - values >= threshold)
    copy = drawn.graph.draw_dst[edges].long() // NODES
    zero = torch.zeros(COPIES, dtype=torch.int64)
    count, total, kept, opposite = (zero.index_add(0, copy, part.long().sum(1)) for part in parts)
    return DrawSums(count, total, kept, opposite, torch.tensor(threshold))


@dataclass
class CopiedDraws:
    """The draws of a layer, with a keep logit and sums for each copy of the four edges."""

    drawn: UsedMask
    keep_logit: Tensor
    counted: Callable[[UsedMask], Tensor]

    def sums(self) -> DrawSums:
        return sums_by_copy(self.drawn, self.counted)


def a_pass(toy: Toy, antithetic: bool) -> tuple[Tensor, list[UsedMask]]:
    """The loss of every copy `[COPIES]`, and the masks."""
    tape: list[UsedMask] = []
    out = toy.model(
        X.repeat(COPIES, 1), many_copies(), draw=replace(DRAW, antithetic=antithetic, tape=tape)
    )
    losses = cross_entropy(out.detach(), LABELS.repeat(COPIES), reduction="none")
    return losses.view(-1, NODES).mean(1), tape


def fixed_uniforms() -> list[Tensor]:
    """What each layer's rate is drawn with."""
    return [uniforms(DRAW.key(layer), 1).reshape(()) for layer in range(2)]


@cache
def passes(
    sharing: str, rate_draw: RateDraw = "layer"
) -> tuple[Toy, list[tuple[Tensor, list[UsedMask]]]]:
    """Both passes of 10^5 copies of the toy, with a rate whose logit has a, b and a fixed u."""
    toy = Toy(sharing, BetaBernoulliRate(rate_draw=rate_draw))
    for rate, keep, u in zip(toy.rates, KEEPS, fixed_uniforms(), strict=True):
        # pi = (1 - u^(1/b))^(1/a), solved for a
        rate.b = 1.1  # type: ignore[assignment]
        rate.a = (1.0 - u ** (1.0 / 1.1)).log() / math.log(keep)  # type: ignore[assignment]
    return toy, [a_pass(toy, antithetic) for antithetic in (False, True)]


@dataclass
class Gradients:
    """Of one layer: samples for the logit `[COPIES]`, and the sum of those for a and b."""

    logit: Tensor
    raw: list[Tensor]


def estimated(
    estimator: Estimator,
    sharing: str,
    counted: Callable[[UsedMask], Tensor] = each_distinct_draw,
    attach: Callable[[Tensor], Tensor] = lambda logit: logit,
    rate_draw: RateDraw = "layer",
) -> list[Gradients]:
    """What the estimator gives each layer; `attach` says what it takes for the logit."""
    toy, both = passes(sharing, rate_draw)
    layers = [
        CopiedDraws(drawn, attach(drawn.keep_logit).expand(COPIES), counted) for drawn in both[0][1]
    ]

    def run(antithetic: bool) -> tuple[Tensor, Sequence[LayerDraws]]:
        return both[antithetic][0], layers

    if isinstance(estimator, REINFORCE):  # a baseline from other passes
        estimator.weighted_losses += 1.2 * (1.0 - estimator.decay)
        estimator.total_weight += 1.0 - estimator.decay
    loss = estimator.loss(run).mean()
    result = []
    for layer, rate in zip(layers, toy.rates, strict=True):
        inputs = [layer.keep_logit, *rate.parameters()]
        samples, *raw = torch.autograd.grad(loss, inputs, retain_graph=True)
        result.append(Gradients(samples.double(), [part.double() for part in raw]))
    return result


def exact(sharing: str, rate_draw: RateDraw = "layer") -> list[tuple[Tensor, list[Tensor]]]:
    """The gradient for each layer's logit, and the logit's slopes in the rate's parameters."""
    toy, _ = passes(sharing, rate_draw)
    logits = [rate.logit(u) for rate, u in zip(toy.rates, fixed_uniforms(), strict=True)]
    leaves = [logit.detach().double().requires_grad_() for logit in logits]
    wanted = torch.autograd.grad(toy.expected_loss(leaves), leaves)
    slopes = [
        [slope.double() for slope in torch.autograd.grad(logit, list(rate.parameters()))]
        for logit, rate in zip(logits, toy.rates, strict=True)
    ]
    return list(zip(wanted, slopes, strict=True))


def standard_errors(samples: Tensor, wanted: Tensor) -> Tensor:
    """How many standard errors the mean of the samples is off."""
    error: Tensor = samples.std(0) / len(samples) ** 0.5
    return (samples.mean(0) - wanted).abs() / error


@pytest.mark.parametrize(
    ("name", "sharing", "rate_draw"),
    [
        # which draws are counted is the same code under every estimator
        *(("ARM", sharing, "layer") for sharing in SHARINGS),
        *((name, "symmetric", "mask") for name in ESTIMATORS),
        *((name, "asymmetric", "layer") for name in ("DisARM", "REINFORCE")),
        ("DisARM", "DropOut", "layer"),
        ("REINFORCE", "DropEdge before normalization", "layer"),
    ],
)
def test_the_mean_gradient_is_the_exact_one_for_logits_and_for_a_and_b(
    name: str, sharing: str, rate_draw: RateDraw
) -> None:
    got_of = estimated(ESTIMATORS[name](), sharing, rate_draw=rate_draw)
    for got, (wanted, slopes) in zip(got_of, exact(sharing, rate_draw), strict=True):
        assert wanted.abs() > 0.01  # there is something to be found
        assert standard_errors(got.logit, wanted) < 4.0
        error = got.logit.std() / COPIES**0.5
        for raw, slope in zip(got.raw, slopes, strict=True):
            assert (raw / COPIES - wanted * slope).abs() < 4.0 * error * slope.abs()


def local_toy() -> Toy:
    """A learned rate for every edge of every copy, the same in all copies."""
    rate = LearnedRate(entries=COPIES * len(EDGES))
    toy = Toy("asymmetric", rate)
    with torch.no_grad():
        for layer, each in enumerate(toy.rates):
            pattern = torch.linspace(-1.0 + layer, 1.5, len(EDGES))
            each.keep_logit.copy_(pattern.repeat(COPIES))  # type: ignore[operator]
    return toy


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_rate_for_each_edge_gets_the_exact_gradient_of_its_own(name: str) -> None:
    toy = local_toy()

    def run(antithetic: bool) -> tuple[Tensor, Sequence[LayerDraws]]:
        tape: list[UsedMask] = []
        draw = replace(DRAW, antithetic=antithetic, tape=tape)
        out = toy.model(X.repeat(COPIES, 1), many_copies(), draw=draw).detach()
        losses = cross_entropy(out, LABELS.repeat(COPIES), reduction="none")
        # each edge is judged by the loss of its copy
        return losses.view(-1, NODES).mean(1).repeat_interleave(len(EDGES)), tape

    parameters = [parameter for rate in toy.rates for parameter in rate.parameters()]
    gradients = torch.autograd.grad(ESTIMATORS[name]().loss(run).mean(), parameters)
    logits = [p[: len(EDGES)].detach().double().requires_grad_() for p in parameters]
    exact_ones = torch.autograd.grad(toy.expected_loss(logits), logits)
    loops = torch.tensor([v == u for v, u in EDGES])
    for gradient, wanted in zip(gradients, exact_ones, strict=True):
        samples = gradient.double().view(COPIES, len(EDGES))
        assert not samples[:, loops].any()  # they are never masked
        assert bool((standard_errors(samples, wanted)[~loops] < 4.0).all())
