"""The entropy of a categorical distribution, in nats."""

import math

import torch
from torch import Tensor

from graphdrop.metrics.inputs import check_probabilities


def predictive_entropy(probabilities: Tensor) -> Tensor:
    """The predictive entropy, `-sum_c p_c log p_c` of each example's mean probabilities.

    Args:
        probabilities: `(n, classes)`, or `(samples, n, classes)`, which is averaged first.

    Returns:
        `(n,)` in float64, between 0 and `log(classes)`.

    Example:
        >>> predictive_entropy(torch.tensor([[1.0, 0.0]])).tolist()
        [0.0]
    """
    mean = check_probabilities(probabilities)
    # Rounding can lift a uniform row an ulp above log C, where the threshold "1.0 of log C" would
    # call it uncertain.
    entropy: Tensor = torch.special.entr(mean).sum(-1)
    return entropy.clamp(0.0, math.log(mean.size(1)))
