"""The kept state is the best on the validation nodes, and training stops when patience is over."""

from dataclasses import replace

import pytest
import torch

from graphdrop.config import TrainSettings
from graphdrop.inference import Predictive
from graphdrop.inference.origin import Origin
from graphdrop.train.selection import Selection, selection_nll, tempered_nll


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


def test_the_first_evaluation_is_always_taken():
    assert selected(TrainSettings(), [(0.0, 50.0)]) == 1


def test_an_offer_says_whether_it_was_taken():
    selection, settings = Selection(), TrainSettings()
    assert selection.offer(1, 0.5, 1.0, settings)
    assert not selection.offer(2, 0.4, 0.1, settings)
    assert selection.offer(3, 0.6, 9.0, settings)
    assert (selection.epoch, selection.accuracy, selection.nll) == (3, 0.6, 9.0)


def test_patience_counts_epochs_since_the_best():
    selection = Selection(epoch=10)
    settings = TrainSettings(patience=5)
    assert [selection.exhausted(epoch, settings) for epoch in (14, 15, 16)] == [False, True, True]


def test_training_goes_on_until_the_minimum_and_without_patience_to_the_end():
    selection = Selection(epoch=10)
    settings = TrainSettings(patience=5, min_epochs=20)
    assert [selection.exhausted(epoch, settings) for epoch in (19, 20)] == [False, True]
    assert not selection.exhausted(10_000, TrainSettings(patience=0))


def test_where_a_class_is_rare_a_state_that_ranks_it_better_is_preferred_at_nearly_the_same_nll():
    """Class 1 has 20 of 500 nodes. One state puts ten of them first and is sure of the others; the
    other state gives every node of class 1 a little more than most, and has the lower NLL."""
    labels = (torch.arange(500) % 25 == 0).long()
    rank = torch.arange(500).double() / 500
    first, second = torch.full((500,), 0.02).double(), 0.02 + 0.01 * rank
    rare = (labels == 1).nonzero().flatten()
    first[rare[:10]] = 0.3
    second[labels == 1], second[(labels == 0).nonzero().flatten()[:60]] = 0.13, 0.14
    states = [Predictive.from_logits(torch.stack([1 - p, p], 1).log()) for p in (first, second)]
    by_nll = [tempered_nll(state.probabilities, labels) for state in states]
    assert by_nll[1] < by_nll[0] < 1.2 * by_nll[1]
    seen = [replace(state, origin=Origin(class_counts=(480, 20))) for state in states]
    assert selection_nll(seen[0], labels) < selection_nll(seen[1], labels)
    assert selection_nll(states[0], labels) == by_nll[0]  # no class is known to be rare
