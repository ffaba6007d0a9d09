"""The kept state is the best on the validation nodes, and training stops when patience is over."""

import pytest

from graphdrop.config import TrainSettings
from graphdrop.train.selection import Selection


@pytest.mark.parametrize(
    ("select", "evaluations", "epoch"),
    [
        ("accuracy", [(0.5, 1.0), (0.7, 3.0), (0.6, 0.5)], 2),
        ("accuracy", [(0.7, 1.0), (0.7, 0.9), (0.7, 0.95)], 2),
        ("accuracy", [(0.7, 1.0), (0.7, 1.0)], 1),
        ("accuracy", [(0.0, 50.0)], 1),
        ("nll", [(0.5, 1.0), (0.7, 3.0), (0.6, 0.5)], 3),
        ("nll", [(0.5, 1.0), (0.7, 1.0)], 2),
    ],
)
def test_the_best_evaluation_is_kept(select, evaluations, epoch):
    selection, settings = Selection(), TrainSettings(select=select)
    taken = [selection.offer(i, *pair, settings) for i, pair in enumerate(evaluations, 1)]
    assert selection.epoch == epoch
    assert taken[epoch - 1]
    assert not any(taken[epoch:])
    assert (selection.accuracy, selection.nll) == evaluations[epoch - 1]


def test_without_patience_training_goes_on_to_the_end():
    selection = Selection(epoch=10)
    assert not selection.is_exhausted(10_000, TrainSettings(patience=0))
    patient = TrainSettings(patience=5)
    assert [selection.is_exhausted(epoch, patient) for epoch in (14, 15)] == [False, True]
