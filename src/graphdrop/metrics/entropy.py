"""The entropy of a categorical distribution, in nats."""

import math

import torch
from torch import Tensor

from graphdrop.metrics.inputs import check_probabilities


def predictive_entropy(probabilities: Tensor) -> Tensor:
    """`H[p] = -sum_c p_c log p_c` of each example's mean probabilities.

    Args:
        probabilities: `(n, classes)`, or `(samples, n, classes)`, which is averaged first.

    Returns:
        `(n,)` in float64, between 0 and `log(classes)`.
    """
    mean = check_probabilities(probabilities)
    # Rounding can lift a uniform row an ulp above log C, where the threshold "1.0 of log C" would
    # call it uncertain.
    entropy: Tensor = torch.special.entr(mean).sum(-1)
    return entropy.clamp(0.0, math.log(mean.size(1)))
