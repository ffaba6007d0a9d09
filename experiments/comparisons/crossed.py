r"""``crossed``: the interval of a mean difference over seeds and test nodes, both random.

All seeds are scored on the same test nodes. With :math:`d_{si}` the difference of two methods at
seed :math:`s` and node :math:`i`, the model is :math:`d_{si} = \mu + a_s + b_i + e_{si}`, and

.. math:: \mathrm{Var}(\bar d) = \frac{\sigma_a^2}{S} + \frac{\sigma_b^2}{N} +
    \frac{\sigma_e^2}{SN} = \frac{1}{SN} E[MS_a + MS_b - MS_e]

by the mean squares of a two-way table. An interval over seeds alone leaves out :math:`\sigma_b^2`:
other test nodes. Neither has other training or validation nodes in it, of which there is one public
split.

Satterthwaite's t is close at 5 %, but can find too much far out in its tail, where a correction
for many comparisons looks: `simulated_p` gives a p-value there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from experiments.comparisons.difference import LEVEL, Difference, t_difference


def crossed(differences: NDArray[np.float64], level: float = LEVEL) -> Difference:
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
    differences: NDArray[np.float64], p_value: float, draws: int = 1_000_000, seed: int = 0
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


def _mean_squares(values: NDArray[np.float64]) -> _MeanSquares:
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
