"""Scores of predicted classes and labels are those of scikit-learn."""

import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, log_loss, recall_score

from graphdrop.metrics.decisions import (
    accuracy,
    label_accuracy,
    label_nll,
    macro_f1,
    micro_f1,
    per_class_recall,
)

LABELS = torch.tensor([0, 0, 1, 3, 3, 3, 1, 0])  # class 2 does not occur
PREDICTED = torch.tensor([0, 2, 1, 3, 0, 3, 3, 0])
PRESENT = [0, 1, 3]


def test_classes():
    assert accuracy(PREDICTED, LABELS) == accuracy_score(LABELS, PREDICTED)
    recall = recall_score(LABELS, PREDICTED, labels=PRESENT, average=None)
    assert per_class_recall(PREDICTED, LABELS).tolist() == pytest.approx(recall.tolist())
    f1 = f1_score(LABELS, PREDICTED, labels=PRESENT, average="macro")
    assert macro_f1(PREDICTED, LABELS) == pytest.approx(f1)


def test_labels():
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.rand(40, 3, generator=generator, dtype=torch.float64)
    truth = (torch.rand(40, 3, generator=generator) < 0.4).float()
    said = probabilities > 0.5
    exact = accuracy_score(truth.flatten(), said.flatten())
    assert label_accuracy(probabilities, truth) == pytest.approx(exact)
    assert micro_f1(probabilities, truth) == pytest.approx(f1_score(truth, said, average="micro"))
    assert label_nll(probabilities, truth) == pytest.approx(
        log_loss(truth.flatten(), probabilities.flatten())
    )
    certain = label_nll(torch.tensor([[0.0]]), torch.tensor([[1.0]]))
    assert 80 < certain < 100  # an underflow of the sigmoid stays finite
