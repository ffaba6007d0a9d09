"""The weights of ARM, DisARM and REINFORCE, exactly: averaged over all values of a draw."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from graphdrop.graph.masks import drop_threshold
from graphdrop.kernels.sums import DrawSums
from graphdrop.sampling.estimators import ARM, REINFORCE, DisARM, Estimator, LayerDraws

ALL = torch.arange(1 << 16)
DROPPED, KEPT = 0.25, 1.875  # what the loss is without and with the connection
LOGITS = [-30.0, -11.0, -2.0, -0.3, 0.0, 0.3, 2.0, 11.0, 30.0]


@dataclass
class OneDraw:
    """A single connection, once for each value that its draw can have."""

    keep_logit: Tensor

    def __post_init__(self) -> None:
        self.threshold = drop_threshold(self.keep_logit)

    def masks(self, antithetic: bool) -> Tensor:
        return (65535 - ALL if antithetic else ALL) >= self.threshold

    def sums(self) -> DrawSums:
        kept, opposite = (self.masks(antithetic).long() for antithetic in (False, True))
        return DrawSums(torch.ones_like(ALL), ALL, kept, opposite, self.threshold.long())

    def run(self, antithetic: bool) -> tuple[Tensor, Sequence[LayerDraws]]:
        return torch.where(self.masks(antithetic), KEPT, DROPPED).double(), [self]


def one_draw(logit: float) -> OneDraw:
    return OneDraw(torch.full((len(ALL),), logit, dtype=torch.float64, requires_grad=True))


def gradients(estimator: Estimator, draw: OneDraw) -> Tensor:
    loss = estimator.loss(draw.run).mean()
    return torch.autograd.grad(loss, draw.keep_logit)[0]


@pytest.mark.parametrize("make", [ARM, DisARM, REINFORCE])
def test_the_mean_over_every_value_of_a_draw_is_the_derivative(make: type[Estimator]) -> None:
    for logit in LOGITS:
        draw = one_draw(logit)
        keep = 1.0 - int(draw.threshold[0]) / 65536
        wanted = (KEPT - DROPPED) * keep * (1.0 - keep)
        assert float(gradients(make(), draw).mean()) == pytest.approx(wanted, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("logit", [-30.0, -2.0, 0.0, 0.3, 11.0])
def test_disarm_is_the_mean_of_arm_given_both_masks(logit: float) -> None:
    draw = one_draw(logit)
    arm, disarm = gradients(ARM(), draw), gradients(DisARM(), draw)
    both = draw.masks(False).long() + 2 * draw.masks(True).long()
    for outcome in set(both.tolist()):
        there = both == outcome
        assert bool((disarm[there] == disarm[there][0]).all())
        assert float(disarm[there][0]) == pytest.approx(float(arm[there].mean()), abs=1e-12)
    assert disarm.var() <= arm.var()


@pytest.mark.parametrize("estimator", [ARM(), DisARM()])
def test_the_second_pass_keeps_nothing_for_a_backward_pass(estimator: Estimator) -> None:
    draw = one_draw(0.3)
    recorded: list[tuple[bool, bool]] = []

    def run(antithetic: bool) -> tuple[Tensor, Sequence[LayerDraws]]:
        recorded.append((antithetic, torch.is_grad_enabled()))
        return draw.run(antithetic)

    estimator.loss(run)
    assert recorded == [(False, True), (True, False)]
    assert estimator.temperature is None
