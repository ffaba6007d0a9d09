"""The moving average of the weights is evaluated and kept, and training goes on without it."""

import pytest
import torch
from torch import nn

from graphdrop.train import Trainer
from graphdrop.train.progress import Silent
from graphdrop.train.state import WeightEMA


@pytest.mark.parametrize(("decay", "steps"), [(0.3, 7), (0.9, 1), (0.999, 2)])
def test_it_is_the_mean_in_which_a_step_counts_decay_times_the_next(decay, steps):
    model, weights = nn.Linear(3, 2).double(), []
    average = WeightEMA(model, decay)
    for step in range(1, steps + 1):
        with torch.no_grad():
            model.weight.copy_(torch.randn_like(model.weight))
        average.update(step)
        weights.append(model.weight.detach().clone())
    shares = [decay ** (steps - 1 - k) for k in range(steps)]
    expected = sum(s * w for s, w in zip(shares, weights, strict=True)) / sum(shares)
    with average.average_parameters():
        torch.testing.assert_close(model.weight.data, expected)
    assert torch.equal(model.weight, weights[-1])


def test_training_goes_on_as_without_and_the_mean_is_kept(tiny, settings_of):
    plain, averaged = (
        Trainer(
            settings_of(train={"epochs": 5, "evaluate_every": 5, "average": average}),
            tiny,
            progress=Silent(),
        )
        for average in (0.0, 0.5)
    )
    for trainer in (plain, averaged):
        trainer.fit()
    losses = [[line["loss"] for line in t.journal.lines] for t in (plain, averaged)]
    assert losses[0] == losses[1]
    means = averaged.state.average.state_dict()
    assert means
    for name, mean in means.items():
        assert torch.equal(averaged.state.best[name], mean)
    assert any(not torch.equal(plain.state.best[name], mean) for name, mean in means.items())
