"""The mean of the weights over the steps of a run."""

import pytest
import torch
from torch import nn

from graphdrop.train import Trainer
from graphdrop.train.progress import Silent
from graphdrop.train.state import WeightEMA


def walked(model: nn.Module, steps: int, decay: float) -> tuple[WeightEMA, list[torch.Tensor]]:
    """The average of a network whose weights are drawn anew at every step, and those weights."""
    average, weights = WeightEMA(model, decay), []
    for step in range(1, steps + 1):
        with torch.no_grad():
            model.weight.copy_(torch.randn_like(model.weight))
        average.update(step)
        weights.append(model.weight.detach().clone())
    return average, weights


@pytest.mark.parametrize(("decay", "steps"), [(0.3, 7), (0.9, 1), (0.9, 2), (0.999, 2), (0.999, 7)])
def test_it_is_the_mean_in_which_a_step_counts_decay_times_the_next(decay, steps):
    model = nn.Linear(3, 2).double()
    average, weights = walked(model, steps, decay)
    shares = [decay ** (steps - 1 - k) for k in range(steps)]
    expected = sum(s * w for s, w in zip(shares, weights, strict=True)) / sum(shares)
    with average.average_parameters():
        torch.testing.assert_close(model.weight.data, expected)
    assert torch.equal(model.weight, weights[-1])


def test_the_own_weights_are_back_after_an_error():
    model = nn.Linear(3, 2)
    average, weights = walked(model, 3, 0.5)
    with pytest.raises(ZeroDivisionError), average.average_parameters():
        _ = 1 / 0
    assert torch.equal(model.weight, weights[-1])


def trained(tiny, settings_of, **train) -> Trainer:
    trainer = Trainer(settings_of(train=train), tiny, progress=Silent())
    trainer.fit()
    return trainer


def test_training_goes_on_as_without_and_the_mean_is_kept(tiny, settings_of):
    losses = [
        [line["loss"] for line in trained(tiny, settings_of, **train).journal.lines]
        for train in (
            {"epochs": 5, "evaluate_every": 1, "samples": 2, "average": average}
            for average in (0.0, 0.5)
        )
    ]
    assert losses[0] == losses[1]
    plain = trained(tiny, settings_of, epochs=5, evaluate_every=5, samples=2)
    averaged = trained(tiny, settings_of, epochs=5, evaluate_every=5, samples=2, average=0.5)
    assert any(
        not torch.equal(plain.state.best[name], averaged.state.best[name])
        for name in plain.state.best
    )
    assert averaged.state.average is not None
    means = averaged.state.average.state_dict()
    assert means
    assert all(torch.equal(averaged.state.best[name], mean) for name, mean in means.items())
