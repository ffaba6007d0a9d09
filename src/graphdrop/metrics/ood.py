"""Out-of-distribution detection by uncertainty: AUROC and AUPR."""

from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from graphdrop.metrics.inputs import check_flags, check_scores


def ood_auroc(uncertainty: Tensor, out_of_distribution: Tensor) -> Tensor:
    """AUROC of out-of-distribution detection by uncertainty; ties count half.

    0.5 is random and 1 is perfect.

    Args:
        uncertainty: one score per example `(n,)`, higher for more uncertain.
        out_of_distribution: boolean `(n,)`, with at least one of each.

    Example:
        >>> ood_auroc(torch.tensor([0.1, 0.9]), torch.tensor([False, True])).item()
        1.0
    """
    return _auroc(*_checked(uncertainty, out_of_distribution))


def ood_aupr(uncertainty: Tensor, out_of_distribution: Tensor) -> Tensor:
    """Average precision with out-of-distribution as the positive class.

    `sum_k (recall_k - recall_{k-1}) precision_k` over the distinct scores from the highest down. A
    blind score gets the share of out-of-distribution examples. The arguments are those of
    `ood_auroc`; negate both for the in-distribution examples as the positive class.
    """
    return _aupr(*_checked(uncertainty, out_of_distribution))


class _Detection(Metric):
    full_state_update = False
    higher_is_better = True
    uncertainty: list[Tensor]
    out_of_distribution: list[Tensor]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("uncertainty", default=[], dist_reduce_fx="cat")
        self.add_state("out_of_distribution", default=[], dist_reduce_fx="cat")

    def update(self, uncertainty: Tensor, out_of_distribution: Tensor) -> None:
        """Add a batch; it may hold only one of the two kinds."""
        uncertainty, outside = _checked(uncertainty, out_of_distribution)
        self.uncertainty.append(uncertainty)
        self.out_of_distribution.append(outside)

    def seen(self) -> tuple[Tensor, Tensor]:
        """The scores and flags of all batches."""
        return dim_zero_cat(self.uncertainty), dim_zero_cat(self.out_of_distribution)


class OodAUROC(_Detection):
    """`ood_auroc` over batches."""

    def compute(self) -> Tensor:
        """The area over all batches."""
        return _auroc(*self.seen())


class OodAUPR(_Detection):
    """`ood_aupr` over batches."""

    def compute(self) -> Tensor:
        """The average precision over all batches."""
        return _aupr(*self.seen())


# torchmetrics squashes scores outside [0, 1] through a float32 sigmoid, which ties large ones, and
# divides in float32; counts per distinct score are as short and exact.


def _auroc(uncertainty: Tensor, outside: Tensor) -> Tensor:
    positives, negatives = _counts_per_score(uncertainty, outside)
    below = negatives.cumsum(0) - negatives
    return (positives * (below + negatives / 2)).sum() / (positives.sum() * negatives.sum())


def _aupr(uncertainty: Tensor, outside: Tensor) -> Tensor:
    positives, negatives = (count.flip(0) for count in _counts_per_score(uncertainty, outside))
    hits = positives.cumsum(0)
    precision = hits / (hits + negatives.cumsum(0))
    return (positives * precision).sum() / positives.sum()


def _counts_per_score(uncertainty: Tensor, outside: Tensor) -> tuple[Tensor, Tensor]:
    """Out-of-distribution and other examples at each distinct score, from the lowest up."""
    found = int(outside.sum())
    if found in (0, outside.numel()):
        raise ValueError(
            f"out_of_distribution marks {found} of {outside.numel()} examples, but it needs at "
            "least one of each kind: pass the examples of both sets together"
        )
    _, group = torch.unique(uncertainty, return_inverse=True)
    groups = int(group.max()) + 1
    positives = torch.bincount(group[outside], minlength=groups)
    negatives = torch.bincount(group[~outside], minlength=groups)
    return positives.to(torch.float64), negatives.to(torch.float64)


def _checked(uncertainty: Tensor, outside: Tensor) -> tuple[Tensor, Tensor]:
    if not isinstance(uncertainty, Tensor) or uncertainty.ndim != 1:
        shape = tuple(getattr(uncertainty, "shape", ()))
        raise ValueError(f"uncertainty has shape {shape}; it takes one score per example (n,)")
    examples = uncertainty.numel()
    return (
        check_scores(uncertainty, examples),
        check_flags(outside, examples, "out_of_distribution"),
    )
