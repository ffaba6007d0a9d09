"""``Difference``: an estimated mean difference with its interval and p-value, by Student's t."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

LEVEL = 0.95


class Difference(NamedTuple):
    """A mean difference, its 95 % interval, and the two-sided p-value of no difference."""

    mean: float
    low: float
    high: float
    p_value: float
    degrees: float
    """The degrees of freedom of the t distribution behind both."""


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
