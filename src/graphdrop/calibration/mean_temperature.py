"""Temperature scaling of mean probabilities, and the prior on a temperature."""

import math
from collections.abc import Callable

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from graphdrop.metrics.inputs import check_labels, check_probabilities

COLDEST, HOTTEST = 1e-2, 1e2
DEVIATION = 0.3
"""Standard deviation of the normal prior on the logarithm of a temperature: a factor of 1.35."""
SLOPE_DEVIATION = 0.5
"""Standard deviation of the normal prior on the slope of entropy-based temperature scaling."""
GRID = 33
"""Temperatures that are tried first, evenly spaced in their logarithm."""
ACCURACY = 1e-6
"""Accuracy of the logarithm of the temperature, between the neighbors of the best on the grid."""


def fit_temperature(
    probabilities: Tensor, labels: Tensor, *, deviation: float = DEVIATION
) -> float:
    r"""The temperature T of `softmax(log p / T)` that a validation set makes most probable.

    The logarithm of T has a normal prior around 0, in which few nodes leave T near 1. Without it a
    validation set without an error would want a T of 0:

        T = argmin  -sum_i log softmax(log p_i / T)[y_i] + (log T)^2 / (2 deviation^2)

    Args:
        probabilities: mean probabilities `(n, classes)`, or `(samples, n, classes)`.
        labels: true class ids `(n,)`, of nodes that were neither trained nor tested on.
        deviation: standard deviation of the prior; infinity for the least NLL.

    Example:
        >>> probabilities = torch.tensor([[0.98, 0.02]]).repeat(4, 1)  # right three times of four
        >>> fit_temperature(probabilities, torch.tensor([0, 0, 0, 1])) > 1
        True
    """
    logits = _log(probabilities)
    labels = check_labels(labels, *logits.shape)[:, None]

    def losses(temperatures: Tensor) -> Tensor:
        tempered = (logits / one for one in temperatures)
        own = [(t.logsumexp(-1) - t.gather(1, labels).squeeze(1)).mean() for t in tempered]
        return torch.stack(own)

    return most_probable_temperature(losses, len(labels), deviation)


def most_probable_temperature(
    losses: Callable[[Tensor], Tensor], nodes: int, deviation: float = DEVIATION
) -> float:
    """The temperature of least penalized NLL, which may have several minima.

    It is searched on a grid of its logarithm, then between the neighbors of the best one there.

    Args:
        losses: gives the mean NLL of the nodes at each temperature of a vector.
        nodes: the number of nodes.
        deviation: standard deviation of the normal prior on the logarithm of the temperature.
    """
    precision = 1.0 / (nodes * deviation**2)
    grid = torch.linspace(math.log(COLDEST), math.log(HOTTEST), GRID, dtype=torch.float64)
    found = losses(grid.exp()).cpu() + 0.5 * precision * grid.square()
    if float(found.max() - found.min()) <= 1e-12:
        return 1.0  # it makes no difference
    place = int(found.argmin())

    def penalized(log: float) -> float:
        loss = float(losses(torch.tensor([math.exp(log)], dtype=torch.float64)))
        return loss + 0.5 * precision * log**2

    ends = float(grid[max(0, place - 1)]), float(grid[min(GRID - 1, place + 1)])
    best = minimize_scalar(penalized, bounds=ends, method="bounded", options={"xatol": ACCURACY})
    return math.exp(best.x if best.fun < found[place] else float(grid[place]))


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
