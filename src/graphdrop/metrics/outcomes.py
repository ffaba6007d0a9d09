"""Uncertainty and correctness of each prediction, the input of PAvPU and AURC."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from graphdrop.metrics.entropy import predictive_entropy
from graphdrop.metrics.inputs import check_labels, check_probabilities, check_scores


class Outcomes(NamedTuple):
    """`uncertainty` and `accurate`, both `(n,)`, and the number of classes."""

    uncertainty: Tensor
    accurate: Tensor
    classes: int


def judge(
    probabilities: Tensor,
    labels: Tensor,
    uncertainty: Tensor | None = None,
    predictions: Tensor | None = None,
) -> Outcomes:
    """Compare predictions with labels; the predictive entropy and the argmax are the defaults."""
    mean = check_probabilities(probabilities)
    examples, classes = mean.shape
    labels = check_labels(labels, examples, classes)
    if uncertainty is None:
        uncertainty = predictive_entropy(mean)
    if predictions is None:
        predictions = mean.argmax(-1)
    return Outcomes(
        check_scores(uncertainty, examples),
        check_labels(predictions, examples, classes, "predictions") == labels,
        classes,
    )


class OutcomeMetric(Metric):
    """A torchmetrics class that keeps two numbers per example: its uncertainty, and whether right.

    The measures need the examples in order of uncertainty, or relative to the largest, so they
    cannot be kept as running sums.
    """

    full_state_update = False
    uncertainty: list[Tensor]
    accurate: list[Tensor]
    classes: Tensor

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("uncertainty", default=[], dist_reduce_fx="cat")
        self.add_state("accurate", default=[], dist_reduce_fx="cat")
        self.add_state("classes", default=torch.tensor(0), dist_reduce_fx="max")

    def update(
        self,
        probabilities: Tensor,
        labels: Tensor,
        uncertainty: Tensor | None = None,
        predictions: Tensor | None = None,
    ) -> None:
        """Add a batch; the arguments are those of the function of the same name."""
        outcomes = judge(probabilities, labels, uncertainty, predictions)
        seen = int(self.classes)
        if seen not in (0, outcomes.classes):
            raise ValueError(
                f"probabilities has {outcomes.classes} classes, but earlier batches had {seen}: "
                "call reset() before measuring another model"
            )
        self.uncertainty.append(outcomes.uncertainty)
        self.accurate.append(outcomes.accurate)
        self.classes = torch.full_like(self.classes, outcomes.classes)

    def outcomes(self) -> Outcomes:
        """Every batch seen so far, as one."""
        return Outcomes(
            dim_zero_cat(self.uncertainty), dim_zero_cat(self.accurate), int(self.classes)
        )
