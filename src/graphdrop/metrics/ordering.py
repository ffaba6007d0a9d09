"""Sorting by a score, with values averaged over equal scores."""

import torch
from torch import Tensor


def sort_by(score: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The scores in rising order and the values in that order, averaged among equal scores.

    Giving each of a group of equal scores the group's mean makes a cumulative sum of the values
    the expectation over all ways to order the group.
    """
    score, order = score.sort()
    _, group, size = torch.unique_consecutive(score, return_inverse=True, return_counts=True)
    total = torch.bincount(group, weights=values[order].to(torch.float64))
    return score, (total / size)[group]
