"""REINFORCE's baseline is a mean of earlier losses, and survives a restart."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from graphdrop.kernels.sums import DrawSums
from graphdrop.sampling.estimators import REINFORCE, LayerDraws

LOSSES = (0.7, 1.3, 0.4, 2.0)
KEPT = 9


@dataclass
class TenDraws:
    """Ten draws of which `KEPT` are kept, at a keep probability of 3/4."""

    keep_logit: Tensor

    def sums(self) -> DrawSums:
        return DrawSums(*(torch.tensor(number) for number in (10, 0, KEPT, 0, 16384)))


def weights(estimator: REINFORCE, losses: Sequence[float]) -> Iterator[float]:
    """What the score is multiplied by, pass by pass."""
    for loss in losses:
        logit = torch.zeros((), requires_grad=True)

        def run(
            antithetic: bool, loss: float = loss, logit: Tensor = logit
        ) -> tuple[Tensor, Sequence[LayerDraws]]:
            return torch.tensor(loss), [TenDraws(logit)]

        (gradient,) = torch.autograd.grad(estimator.loss(run), logit)
        yield float(gradient) / (KEPT - 0.75 * 10)


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9])
def test_the_baseline_is_the_decaying_mean_of_the_losses_before_this_one(decay: float) -> None:
    wanted = []
    for number, loss in enumerate(LOSSES):
        before = LOSSES[:number][::-1]
        share = [decay**age for age in range(number)]
        mean = sum(s * b for s, b in zip(share, before, strict=True)) / (sum(share) or 1.0)
        wanted.append(loss - mean)
    assert list(weights(REINFORCE(decay), LOSSES)) == pytest.approx(wanted)


def test_the_baseline_is_saved_with_the_state() -> None:
    whole, first, second = REINFORCE(), REINFORCE(), REINFORCE()
    unbroken = list(weights(whole, LOSSES))
    list(weights(first, LOSSES[:2]))
    second.load_state_dict(first.state_dict())
    assert list(weights(second, LOSSES[2:])) == unbroken[2:]


@pytest.mark.parametrize("decay", [-0.1, 1.0, float("nan")])
def test_a_decay_outside_its_range_is_refused(decay: float) -> None:
    with pytest.raises(
        ValueError, match=r"decay is .*; it takes a number of at least 0 and below 1"
    ):
        REINFORCE(decay)


def test_the_baseline_moves_with_the_model_unless_the_device_has_no_float64(monkeypatch) -> None:
    assert REINFORCE().to("meta").total_weight.device.type == "meta"
    monkeypatch.setattr("graphdrop.sampling.estimators.reinforce.has_float64", lambda device: False)
    assert REINFORCE().to("meta").total_weight.device.type == "cpu"
