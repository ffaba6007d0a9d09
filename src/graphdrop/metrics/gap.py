"""The generalization gap: training accuracy minus test accuracy."""

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from graphdrop.metrics.inputs import check_flags, check_labels, check_probabilities


def accuracy_gap(
    probabilities: Tensor,
    labels: Tensor,
    train_mask: Tensor,
    test_mask: Tensor,
    *,
    predictions: Tensor | None = None,
) -> Tensor:
    """Generalization gap: accuracy on the training nodes minus accuracy on the test nodes.

    Labels outside the two masks are not read.

    Args:
        probabilities: mean probabilities `(n, classes)`, or `(samples, n, classes)`.
        labels: true class ids `(n,)`.
        train_mask: boolean `(n,)`.
        test_mask: boolean `(n,)`, disjoint from `train_mask`.
        predictions: class ids `(n,)`, such as the majority vote; the argmax if not given.
    """
    return _gap(_count(probabilities, labels, train_mask, test_mask, predictions))


class AccuracyGap(Metric):
    """`accuracy_gap` over batches; a batch may hold nodes of one kind only."""

    full_state_update = False
    higher_is_better = False
    counts: Tensor

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("counts", torch.zeros(2, 2, dtype=torch.int64), dist_reduce_fx="sum")

    def update(
        self,
        probabilities: Tensor,
        labels: Tensor,
        train_mask: Tensor,
        test_mask: Tensor,
        predictions: Tensor | None = None,
    ) -> None:
        """Add a batch; the arguments are those of `accuracy_gap`."""
        self.counts += _count(probabilities, labels, train_mask, test_mask, predictions)

    def compute(self) -> Tensor:
        """The gap over all batches."""
        return _gap(self.counts)


def _count(
    probabilities: Tensor,
    labels: Tensor,
    train_mask: Tensor,
    test_mask: Tensor,
    predictions: Tensor | None,
) -> Tensor:
    """Right answers and examples (columns) among training and test nodes (rows)."""
    mean = check_probabilities(probabilities)
    examples, classes = mean.shape
    train = check_flags(train_mask, examples, "train_mask")
    test = check_flags(test_mask, examples, "test_mask")
    shared = int((train & test).sum())
    if shared:
        raise ValueError(
            f"train_mask and test_mask share {shared} nodes, but they must be disjoint: "
            "a node that was trained on says nothing about new ones"
        )
    if predictions is None:
        predictions = mean.argmax(-1)
    predictions = check_labels(predictions, examples, classes, "predictions")
    used = train | test
    # Unlabelled nodes often carry a label outside the range; only those that count are checked.
    right = check_labels(torch.where(used, labels, 0), examples, classes) == predictions
    rows = [torch.stack([(right & mask).sum(), mask.sum()]) for mask in (train, test)]
    return torch.stack(rows)


def _gap(counts: Tensor) -> Tensor:
    for name, examples in zip(("train_mask", "test_mask"), counts[:, 1].tolist(), strict=True):
        if examples == 0:
            raise ValueError(
                f"{name} selects no node, but a gap needs at least one of each: check the split"
            )
    accuracy = counts[:, 0].to(torch.float64) / counts[:, 1]
    return accuracy[0] - accuracy[1]
