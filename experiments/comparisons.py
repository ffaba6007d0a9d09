r"""Intervals and tests of the difference between two methods, and their correction for many.

Over seeds and test nodes, both random (`crossed`), all seeds are scored on the same test nodes.
With :math:`d_{si}` the difference of two methods at seed :math:`s` and node :math:`i`, the model is
:math:`d_{si} = \mu + a_s + b_i + e_{si}`, and

.. math:: \mathrm{Var}(\bar d) = \frac{\sigma_a^2}{S} + \frac{\sigma_b^2}{N} +
    \frac{\sigma_e^2}{SN} = \frac{1}{SN} E[MS_a + MS_b - MS_e]

by the mean squares of a two-way table. An interval over seeds alone leaves out :math:`\sigma_b^2`,
which other test nodes would bring.

Over random splits of one graph (`resampled_t`, Nadeau and Bengio) the differences are correlated,
because splits share nodes. With a correlation of :math:`n_2 / (n_1 + n_2)`, for :math:`n_1` nodes
whose labels were used and :math:`n_2` test nodes, the variance of the mean over :math:`J` splits is

.. math:: \Big(\frac{1}{J} + \frac{n_2}{n_1}\Big) \, \hat\sigma^2, \qquad J - 1 \text{ degrees}.

ECE, AURC and PAvPU are no means over nodes. With :math:`\theta` the score of a run on :math:`N`
nodes and :math:`\theta_{-i}` that without node :math:`i`, the jackknife's centred pseudo-values,

.. math:: v_i = \theta + (N - 1) \Big(\frac{1}{N} \sum_j \theta_{-j} - \theta_{-i}\Big),

have the mean :math:`\theta` and, over :math:`N`, the jackknife's variance. For a score that is a
mean, such as the accuracy, :math:`v_i` is what the node itself has, so that differences of
:math:`v` are what `crossed` takes. Where bins of the ECE are perfectly calibrated its derivative
jumps, and the interval is too wide rather than too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from experiments.tables import signed

Values = NDArray[np.float64]

LEVEL = 0.95


class Difference(NamedTuple):
    """A mean difference, its 95 % interval, and the two-sided p-value of no difference."""

    mean: float
    low: float
    high: float
    p_value: float
    degrees: float
    """The degrees of freedom of the t distribution behind both."""


def format_difference(difference: Difference, digits: int) -> str:
    """Write a difference with its interval, such as `+0.12 [-0.30, +0.54]`."""
    mean, low, high = (signed(value, digits) for value in difference[:3])
    return f"{mean} [{low}, {high}]"


def t_difference(mean: float, variance: float, degrees: float, level: float = LEVEL) -> Difference:
    """The difference whose estimate has this variance; without any variance there is no doubt.

    Example:
        >>> found = t_difference(1.0, 0.25, 9)
        >>> round(found.low, 3), round(found.high, 3)
        (-0.131, 2.131)
    """
    error = math.sqrt(max(variance, 0.0))
    if error == 0.0:
        return Difference(mean, mean, mean, 1.0 if mean == 0.0 else 0.0, degrees)
    reach = float(stats.t.ppf((1 + level) / 2, degrees)) * error
    p_value = 2.0 * float(stats.t.sf(abs(mean) / error, degrees))
    return Difference(mean, mean - reach, mean + reach, p_value, degrees)


def seeds_alone(differences: Sequence[float]) -> Difference:
    """Student's paired t over seeds: for other seeds on the same nodes, and not for other nodes.

    Example:
        >>> round(seeds_alone([1.0, 2.0, 3.0]).mean, 3)
        2.0
    """
    values = np.asarray(differences, dtype=float)
    if len(values) < 2:
        raise ValueError(f"differences has {len(values)} entries; it takes at least 2 runs.")
    return t_difference(
        float(values.mean()), float(values.var(ddof=1)) / len(values), len(values) - 1
    )


def crossed(differences: Values, level: float = LEVEL) -> Difference:
    """The mean difference, with Satterthwaite's degrees of freedom.

    A component that comes out negative counts as 0, which makes the interval wider.

    Args:
        differences: ``[seeds, nodes]``, one method minus another.
        level: of the interval.

    Example:
        >>> table = np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
        >>> round(crossed(table).mean, 3)
        0.5
    """
    values = np.asarray(differences, dtype=float)
    if values.ndim != 2 or min(values.shape) < 2:
        raise ValueError(
            f"differences has shape {values.shape}; it takes [seeds, nodes], at least 2 of each."
        )
    squares = _mean_squares(values)
    total, freedom = _variance(squares, values.shape)
    return t_difference(float(values.mean()), float(total) / values.size, float(freedom), level)


def simulated_p(
    differences: Values, p_value: float, draws: int = 1_000_000, seed: int = 0
) -> float:
    """How often tables without a difference, with components as in this one, show such a p-value.

    Mean squares are drawn in place of tables: with normal effects they are independent multiples of
    chi-square.

    Args:
        differences: ``[seeds, nodes]``, one method minus another.
        p_value: what `crossed` says of them.
        draws: tables drawn.
        seed: of the draws.
    """
    values = np.asarray(differences, dtype=float)
    found = _mean_squares(values)
    rest = found.rest
    expected = _MeanSquares(max(found.seed, rest), max(found.node, rest), rest)
    generator = np.random.default_rng(seed)
    drawn = _MeanSquares(
        *(
            mean * generator.chisquare(degrees, draws) / degrees
            for mean, degrees in zip(expected, _degrees(values.shape), strict=True)
        )
    )
    spread = expected.seed + expected.node - rest
    means = np.sqrt(spread) * generator.standard_normal(draws)
    total, freedom = _variance(drawn, values.shape)
    shown = 2.0 * stats.t.sf(np.abs(means) / np.sqrt(total), freedom)
    return float(1 + np.sum(shown <= p_value)) / (1 + draws)


class _MeanSquares(NamedTuple):
    """Of a two-way table: numbers, or arrays of drawn ones."""

    seed: Any
    node: Any
    rest: Any


def _mean_squares(values: Values) -> _MeanSquares:
    seeds, nodes = values.shape
    by_seed, by_node = values.mean(1), values.mean(0)
    rest = values - by_seed[:, None] - by_node + values.mean()
    return _MeanSquares(
        nodes * by_seed.var(ddof=1),
        seeds * by_node.var(ddof=1),
        np.square(rest).sum() / ((seeds - 1) * (nodes - 1)),
    )


def _degrees(shape: tuple[int, ...]) -> tuple[int, int, int]:
    seeds, nodes = shape
    return seeds - 1, nodes - 1, (seeds - 1) * (nodes - 1)


def _variance(squares: _MeanSquares, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """``MS_a + MS_b - MS_e`` and its degrees; a component of 0 has ``MS_e`` in place of its own."""
    by_seed, by_node = squares.seed > squares.rest, squares.node > squares.rest
    both_or_none = by_seed == by_node
    total = by_seed * squares.seed + by_node * squares.node
    total = total + np.where(both_or_none, np.where(by_seed, -1.0, 1.0), 0.0) * squares.rest
    used = (by_seed, by_node, both_or_none)
    spread = sum(
        is_used * square**2 / degrees
        for is_used, square, degrees in zip(used, squares, _degrees(shape), strict=True)
    )
    exact = spread == 0.0
    freedom = np.where(exact, _degrees(shape)[2], total**2 / np.where(exact, 1.0, spread))
    return total, freedom


def resampled_t(
    differences: Sequence[float], tested: int, fitted: int, level: float = LEVEL
) -> Difference:
    """The mean difference over random splits.

    Args:
        differences: one for every split, one method minus another.
        tested: test nodes of a split.
        fitted: nodes of a split whose labels were used, to train, select or calibrate.
        level: of the interval.

    Example:
        >>> found = resampled_t([1.0, 2.0, 3.0], tested=50, fitted=100)
        >>> round(found.mean, 3), found.degrees
        (2.0, 2)
    """
    values = np.asarray(differences, dtype=float)
    if len(values) < 2 or tested < 1 or fitted < 1:
        raise ValueError(
            f"differences has {len(values)} entries, tested is {tested} and fitted is {fitted}; it "
            "takes at least 2 splits with nodes in both parts."
        )
    count = len(values)
    variance = (1.0 / count + tested / fitted) * float(values.var(ddof=1))
    return t_difference(float(values.mean()), variance, count - 1, level)


def holm(p_values: Sequence[float], planned: int | None = None) -> list[float]:
    """The smallest family-wise error rates at which each comparison would be declared.

    Args:
        p_values: of the comparisons that were made.
        planned: how many were planned; those that were not made yet count as p = 1, so that what is
            declared stays so when they are made.

    Example:
        >>> [round(one, 6) for one in holm([0.01, 0.04, 0.03])]
        [0.03, 0.06, 0.06]
    """
    count = len(p_values) if planned is None else planned
    if count < len(p_values):
        raise ValueError(
            f"planned is {planned}; it takes at least the number of p-values, {len(p_values)}."
        )
    order = sorted(range(len(p_values)), key=lambda k: p_values[k])
    corrected, largest = [1.0] * len(p_values), 0.0
    for rank, k in enumerate(order):
        largest = max(largest, min(1.0, (count - rank) * p_values[k]))
        corrected[k] = largest
    return corrected


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
