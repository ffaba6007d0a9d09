"""Out-of-distribution detection by uncertainty: AUROC and AUPR."""

import torch
from torch import Tensor

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
    positives, negatives = _count_per_score(uncertainty, out_of_distribution)
    below = negatives.cumsum(0) - negatives
    return (positives * (below + negatives / 2)).sum() / (positives.sum() * negatives.sum())


def ood_aupr(uncertainty: Tensor, out_of_distribution: Tensor) -> Tensor:
    """Average precision with out-of-distribution as the positive class.

    `sum_k (recall_k - recall_{k-1}) precision_k` over the distinct scores from the highest down. A
    blind score gets the share of out-of-distribution examples. The arguments are those of
    `ood_auroc`; negate both for the in-distribution examples as the positive class.
    """
    counts = _count_per_score(uncertainty, out_of_distribution)
    positives, negatives = (count.flip(0) for count in counts)
    hits = positives.cumsum(0)
    precision = hits / (hits + negatives.cumsum(0))
    return (positives * precision).sum() / positives.sum()


# torchmetrics squashes scores outside [0, 1] through a float32 sigmoid, which ties large ones, and
# divides in float32; counts per distinct score are as short and exact.


def _count_per_score(uncertainty: Tensor, outside: Tensor) -> tuple[Tensor, Tensor]:
    """Count the examples of both kinds at each distinct score, from the lowest score up."""
    if not isinstance(uncertainty, Tensor) or uncertainty.ndim != 1:
        shape = tuple(getattr(uncertainty, "shape", ()))
        raise ValueError(f"uncertainty has shape {shape}; it takes one score per example (n,)")
    examples = uncertainty.numel()
    uncertainty = check_scores(uncertainty, examples)
    outside = check_flags(outside, examples, "out_of_distribution")
    marked = int(outside.sum())
    if marked in (0, examples):
        raise ValueError(
            f"out_of_distribution marks {marked} of {examples} examples, but it needs at "
            "least one of each kind: pass the examples of both sets together"
        )
    _, group = torch.unique(uncertainty, return_inverse=True)
    groups = int(group.max()) + 1
    positives = torch.bincount(group[outside], minlength=groups)
    negatives = torch.bincount(group[~outside], minlength=groups)
    return positives.to(torch.float64), negatives.to(torch.float64)
