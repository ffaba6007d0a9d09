"""A sum that has the same bits on any number of threads."""

import torch
from torch import Tensor

SERIAL = 8192
"""So many numbers torch adds up in one thread."""


def ordered_sum(values: Tensor) -> Tensor:
    """The sum of `values [n]`, added up in an order that the number of threads does not change.

    Torch divides a long sum between threads, but not a short one, nor the sum of one row of many.
    """
    while len(values) > SERIAL:
        values = torch.stack([part.sum() for part in torch.split(values, SERIAL)])
    return values.sum()
