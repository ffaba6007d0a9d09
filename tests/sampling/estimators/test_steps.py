"""Real training steps: the estimators on a `GCN`, and what `UsedMask` tells them of its layers."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from contracts.toy_network import EDGES, LABELS, Toy, X
from graphdrop.kernels.reference import draw_values
from graphdrop.sampling.estimators import ARM, REINFORCE, Concrete, DisARM, Estimator
from graphdrop.sampling.rates import BetaBernoulliRate, LearnedRate
from graphdrop.sampling.samplers import Draw, UsedMask

STEPS = 1000


class Passes:
    """Forward passes of a toy with one draw; keeps the tape of each."""

    def __init__(self, toy: Toy, draw: Draw) -> None:
        self.toy, self.draw = toy, draw
        self.tapes: list[list[UsedMask]] = []

    def __call__(self, antithetic: bool) -> tuple[Tensor, Sequence[UsedMask]]:
        tape: list[UsedMask] = []
        draw = replace(self.draw, antithetic=antithetic, tape=tape)
        rows = self.toy.rows if len(self.toy.rows) < len(LABELS) else None
        out = self.toy.model(X, self.toy.graph, rows=rows, draw=draw)
        self.tapes.append(tape)
        return cross_entropy(out, LABELS[self.toy.rows]), tape


def mean_and_error(toy: Toy, estimator: Estimator) -> tuple[Tensor, Tensor]:
    """Of the gradient for all parameters of the rates, over training steps."""
    parameters = [parameter for rate in toy.rates for parameter in rate.parameters()]
    samples = []
    for _ in range(STEPS):
        loss = estimator.loss(Passes(toy, toy.model.next_draw()))
        gradients = torch.autograd.grad(loss, parameters)
        samples.append(torch.cat([gradient.flatten() for gradient in gradients]))
    stacked = torch.stack(samples).double()
    return stacked.mean(0), stacked.std(0) / STEPS**0.5


def exact_gradient(toy: Toy) -> Tensor:
    parameters = [parameter for rate in toy.rates for parameter in rate.parameters()]
    if isinstance(toy.rates[0], BetaBernoulliRate):
        middles = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000
        loss = toy.expected_loss_over_rates(middles)
    else:
        loss = toy.expected_loss([rate.logit().double() for rate in toy.rates])
    gradients = torch.autograd.grad(loss, parameters)
    return torch.cat([gradient.flatten() for gradient in gradients]).double()


def local_rate() -> LearnedRate:
    rate = LearnedRate(entries=len(EDGES))
    with torch.no_grad():
        rate.keep_logit.copy_(torch.linspace(-1.0, 1.0, len(EDGES)))
    return rate


@pytest.mark.parametrize(
    ("sharing", "make", "rate", "rows"),
    [
        ("asymmetric", ARM, BetaBernoulliRate, [0, 2]),
        ("symmetric", DisARM, BetaBernoulliRate, [0, 2]),
        ("DropEdge", REINFORCE, lambda: LearnedRate(0.6), None),
        # the rate also enters the loss by itself, as a factor
        ("rescaled DropOut", ARM, lambda: LearnedRate(0.6), [0, 2]),
        ("DropEdge before normalization", DisARM, lambda: LearnedRate(0.6), [1]),
        ("asymmetric", DisARM, local_rate, [2, 0]),
    ],
)
def test_training_steps_give_the_exact_gradient_on_average(
    sharing: str, make: type[Estimator], rate: type[BetaBernoulliRate], rows: list[int] | None
) -> None:
    toy = Toy(sharing, rate(), rows)
    for each in toy.rates:
        if isinstance(each, BetaBernoulliRate):
            each.a, each.b = 1.2, 1.2  # type: ignore[assignment]
    mean, error = mean_and_error(toy, make())
    wanted = exact_gradient(toy)
    assert bool((wanted.abs() > 4.0 * error).any())  # it is not just noise
    assert bool(((mean - wanted).abs() <= 4.0 * error).all()), (mean - wanted) / error


@pytest.mark.parametrize("estimator", [ARM(), DisARM()])
def test_both_passes_draw_the_same_numbers_in_every_layer_and_turn_them_round(
    estimator: Estimator,
) -> None:
    toy = Toy("asymmetric", BetaBernoulliRate())
    passes = Passes(toy, Draw(5, 1))
    estimator.loss(passes)
    first, second = passes.tapes
    assert len(first) == len(second) == 2
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one.keep_logit, other.keep_logit)
        values = [
            draw_values(each.graph, each.mask, each.features, torch.arange(len(EDGES)))
            for each in (one, other)
        ]
        assert bool((values[0] + values[1] == 65535).all())
        assert len(set(values[0].flatten().tolist())) == values[0].numel()


@pytest.mark.parametrize("estimator", [Concrete(), ARM(), DisARM(), REINFORCE()])
def test_the_loss_and_the_gradient_of_the_weights_are_those_of_the_first_pass(
    estimator: Estimator,
) -> None:
    toy = Toy("asymmetric", BetaBernoulliRate())
    draw = Draw(5, 1, temperature=estimator.temperature)
    weights = [layer.get_parameter("weight") for layer in toy.model.layers]
    wanted, _ = Passes(toy, draw)(antithetic=False)
    got = estimator.loss(Passes(toy, draw))
    assert torch.equal(got, wanted)
    for one, other in zip(
        torch.autograd.grad(got, weights), torch.autograd.grad(wanted, weights), strict=True
    ):
        assert torch.equal(one, other)
