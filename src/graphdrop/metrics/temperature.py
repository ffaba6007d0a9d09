"""Temperature scaling of mean probabilities."""

import math

import torch
from scipy.optimize import brentq
from torch import Tensor

from graphdrop.metrics.inputs import check_labels, check_probabilities

COLDEST, HOTTEST = 1e-2, 1e2


def fit_temperature(probabilities: Tensor, labels: Tensor) -> float:
    """The temperature T that minimises the NLL of `softmax(log p / T)` on a validation set.

    The NLL is convex in 1/T, so the root of its derivative there is the one minimum. T is held to
    [0.01, 100]: a validation set without an error wants 0, one that the model is wrong about on
    average wants infinity. It is 1 when T makes no difference (uniform probabilities).

    Args:
        probabilities: mean probabilities `(n, classes)`, or `(samples, n, classes)`.
        labels: true class ids `(n,)`, of nodes that were neither trained nor tested on.

    Example:
        >>> probabilities = torch.tensor([[0.98, 0.02]]).repeat(4, 1)  # right three times of four
        >>> fit_temperature(probabilities, torch.tensor([0, 0, 0, 1])) > 1
        True
    """
    logits = _log(probabilities)
    labels = check_labels(labels, *logits.shape)
    true_class = logits.gather(1, labels[:, None]).squeeze(1)

    def slope(inverse: float) -> float:
        """The derivative of the NLL with respect to 1/T."""
        expected = ((logits * inverse).softmax(-1) * logits).sum(-1)
        return float((expected - true_class).mean())

    coldest, hottest = COLDEST, HOTTEST
    at_hottest, at_coldest = slope(1 / hottest), slope(1 / coldest)
    if math.isclose(at_hottest, at_coldest, abs_tol=1e-12):
        return 1.0
    if at_hottest >= 0:
        return hottest
    if at_coldest <= 0:
        return coldest
    return 1 / float(brentq(slope, 1 / hottest, 1 / coldest, xtol=1e-12))


def apply_temperature(probabilities: Tensor, temperature: float) -> Tensor:
    """`softmax(log p / T)`: flatter for T > 1, sharper for T < 1, the same argmax for any.

    Args:
        probabilities: mean probabilities `(n, classes)`, or `(samples, n, classes)`.
        temperature: a positive number, from `fit_temperature`.

    Returns:
        `(n, classes)` in the precision of the input.
    """
    if not 0 < temperature < math.inf:
        raise ValueError(
            f"temperature is {temperature}; it takes a finite number above 0, such as "
            "fit_temperature returns."
        )
    return (_log(probabilities) / temperature).softmax(-1).to(probabilities.dtype)


def _log(probabilities: Tensor) -> Tensor:
    mean = check_probabilities(probabilities)
    # A zero is an underflow of the softmax; its logarithm would make every temperature as bad.
    return mean.clamp(min=torch.finfo(probabilities.dtype).tiny).log()
