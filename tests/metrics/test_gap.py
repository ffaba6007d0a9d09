"""The accuracy gap is training accuracy less test accuracy, and looks at nothing else."""

import pytest
import torch
from sklearn.metrics import accuracy_score

from graphdrop.metrics import accuracy_gap

PROBABILITIES = torch.tensor([[0.9, 0.1]] * 7)
TRAIN = torch.tensor([1, 1, 1, 1, 0, 0, 0], dtype=torch.bool)
TEST = torch.tensor([0, 0, 0, 0, 1, 1, 0], dtype=torch.bool)
LABELS = torch.tensor([0, 0, 0, 1, 0, 1, -1])


def test_seven_nodes_by_hand():
    assert accuracy_gap(PROBABILITIES, LABELS, TRAIN, TEST).item() == pytest.approx(3 / 4 - 1 / 2)


def test_exchanging_the_masks_changes_the_sign():
    gap = accuracy_gap(PROBABILITIES, LABELS, TEST, TRAIN).item()
    assert gap == pytest.approx(1 / 2 - 3 / 4)


def test_a_vote_may_replace_the_argmax():
    vote = torch.tensor([0, 0, 0, 1, 1, 0, 0])
    assert accuracy_gap(PROBABILITIES, LABELS, TRAIN, TEST, predictions=vote).item() == 1.0


def test_it_is_the_difference_of_two_of_scikit_learns_accuracies():
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.randn(200, 5, generator=generator).softmax(-1)
    labels = torch.randint(5, (200,), generator=generator)
    part = torch.randint(3, (200,), generator=generator)
    predictions = probabilities.argmax(-1)
    train, test = (accuracy_score(labels[part == p], predictions[part == p]) for p in (0, 1))
    gap = accuracy_gap(probabilities, labels, part == 0, part == 1)
    assert gap.item() == pytest.approx(train - test, abs=1e-12)
