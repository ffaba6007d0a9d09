"""A sum whose bits do not depend on the number of threads."""

import torch
from torch import Tensor

SERIAL = 8192
"""Torch sums up to this many numbers in one thread."""


def ordered_sum(values: Tensor) -> Tensor:
    """The sum of `values [n]` in a fixed order, for any number of threads.

    Torch divides a long sum between threads, but not a short one or one row of a matrix.
    """
    while len(values) > SERIAL:
        values = torch.stack([part.sum() for part in torch.split(values, SERIAL)])
    return values.sum()
