r"""ECE, AURC and PAvPU as means over test nodes, by leaving each node out in turn.

These scores are no means over nodes. With :math:`\theta` the score of a run on :math:`N` nodes and
:math:`\theta_{-i}` that without node :math:`i`, the centred pseudo-values of the jackknife,

.. math:: v_i = \theta + (N - 1) \Big(\frac{1}{N} \sum_j \theta_{-j} - \theta_{-i}\Big),

have the mean :math:`\theta` and, over :math:`N`, the jackknife's variance. For a score that is a
mean, such as the accuracy, :math:`v_i` is what the node itself has, so that differences of
:math:`v` are what ``crossed`` takes. Where bins of the ECE are perfectly calibrated its derivative
jumps, and the interval is too wide rather than too narrow.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def node_values(score: float, without: Values) -> Values:
    """The pseudo-values :math:`v_i` from the score and the scores without each node, ``[nodes]``.

    Example:
        >>> right = np.array([1.0, 0.0, 1.0, 1.0])
        >>> without = (right.sum() - right) / 3
        >>> bool(np.allclose(node_values(right.mean(), without), right))
        True
    """
    values: Values = score + (len(without) - 1) * (without.mean() - without)
    return values


def ece_without_each(right: Values, confidence: Values, bins: int) -> Values:
    """The expected calibration error without each node, over bins of equal width.

    Args:
        right: 1 where the prediction is right and 0 elsewhere, ``[nodes]``.
        confidence: the largest probability, ``[nodes]``.
        bins: how many bins.
    """
    gaps = right - confidence
    own = np.clip(np.ceil(bins * confidence).astype(int) - 1, 0, bins - 1)
    sums = np.bincount(own, weights=gaps, minlength=bins)
    changes = np.abs(sums[own] - gaps) - np.abs(sums[own])
    found: Values = (np.abs(sums).sum() + changes) / (len(right) - 1)
    return found


def aurc_without_each(right: Values, uncertainty: Values) -> Values:
    """The area under the risk-coverage curve without each node; equal ones keep their order.

    Args:
        right: 1 where the prediction is right and 0 elsewhere, ``[nodes]``.
        uncertainty: such as the entropy, ``[nodes]``.
    """
    order = uncertainty.argsort(kind="stable")
    errors = 1.0 - right[order]
    nodes, wrong = len(errors), errors.cumsum()
    before = np.concatenate([[0.0], (wrong / np.arange(1, nodes + 1))[:-1].cumsum()])
    # Nodes after the one left out come one place earlier, without its error.
    places = np.arange(1, nodes)
    after = np.concatenate([(wrong[1:] / places)[::-1].cumsum()[::-1], [0.0]])
    shares = np.concatenate([(1.0 / places)[::-1].cumsum()[::-1], [0.0]])
    found = np.empty(nodes)
    found[order] = (before + after - errors * shares) / (nodes - 1)
    return found


def pavpu_without_each(right: Values, uncertainty: Values, threshold: float) -> Values:
    """PAvPU without each node, at a fraction of the largest uncertainty that is left.

    Args:
        right: 1 where the prediction is right and 0 elsewhere, ``[nodes]``.
        uncertainty: not negative, ``[nodes]``.
        threshold: the fraction, in [0, 1].
    """
    largest = int(uncertainty.argmax())
    good = _good(right, uncertainty, threshold)
    found: Values = (good.sum() - good) / (len(right) - 1)
    kept = np.arange(len(right)) != largest
    found[largest] = _good(right[kept], uncertainty[kept], threshold).mean()
    return found


def _good(right: Values, uncertainty: Values, threshold: float) -> Values:
    """1 for nodes that are right and certain, or wrong and uncertain."""
    certain = uncertainty <= threshold * uncertainty.max()
    good: Values = (certain == (right == 1.0)).astype(float)
    return good
