"""Selective prediction: reject the most uncertain predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from graphdrop.metrics.inputs import check_fraction, check_scores, count_at_least


class Rejection(NamedTuple):
    """The kept rows, and the threshold of their uncertainty."""

    kept: Tensor
    """A bool for every row, `[n]`, `ceil(coverage * n)` of them true."""
    threshold: float
    """The largest uncertainty among the kept rows; it can be applied to other nodes."""
    by: str
    """The uncertainty that decided."""


def most_certain(uncertainties: Mapping[str, Tensor], by: str, coverage: float) -> Rejection:
    """Keep a fraction of the rows, the most certain first; ties by position.

    Args:
        uncertainties: `[n]` each, by name.
        by: the name of the one that decides.
        coverage: the share to keep, above 0 and at most 1.
    """
    if by not in uncertainties:
        known = ", ".join(map(repr, uncertainties))
        raise ValueError(f"by is {by!r}; it takes one of {known}")
    uncertainty = uncertainties[by]
    uncertainty = check_scores(uncertainty, len(uncertainty), by)
    order = uncertainty.argsort(stable=True)
    order = order[: count_at_least(check_fraction(coverage, "coverage"), len(order))]
    kept = torch.zeros_like(uncertainty, dtype=torch.bool)
    kept[order] = True
    return Rejection(kept, float(uncertainty[order[-1]]), by)
