"""The kept state is the best on the validation nodes, and training stops when patience is over."""

import pytest

from graphdrop.config import TrainSettings
from graphdrop.train.selection import Selection


def selected(settings: TrainSettings, evaluations: list[tuple[float, float]]) -> int:
    selection = Selection()
    for epoch, (accuracy, nll) in enumerate(evaluations, 1):
        selection.offer(epoch, accuracy, nll, settings)
    return selection.epoch


@pytest.mark.parametrize(
    ("select", "evaluations", "epoch"),
    [
        ("accuracy", [(0.5, 1.0), (0.7, 3.0), (0.6, 0.5)], 2),
        ("accuracy", [(0.7, 1.0), (0.7, 0.9), (0.7, 0.95)], 2),
        ("accuracy", [(0.7, 1.0), (0.7, 1.0)], 1),
        ("nll", [(0.5, 1.0), (0.7, 3.0), (0.6, 0.5)], 3),
        ("nll", [(0.5, 1.0), (0.7, 1.0)], 2),
    ],
    ids=["most accurate", "tie to lower NLL", "tie to the first", "lowest NLL", "tie to accuracy"],
)
def test_the_best_evaluation_is_kept(select, evaluations, epoch):
    assert selected(TrainSettings(select=select), evaluations) == epoch


def test_an_offer_says_whether_it_was_taken():
    selection, settings = Selection(), TrainSettings()
    assert selection.offer(1, 0.5, 1.0, settings)
    assert not selection.offer(2, 0.4, 0.1, settings)
    assert selection.offer(3, 0.6, 9.0, settings)
    assert (selection.epoch, selection.accuracy, selection.nll) == (3, 0.6, 9.0)


def test_without_patience_training_goes_on_to_the_end():
    assert not Selection(epoch=10).exhausted(10_000, TrainSettings(patience=0))
