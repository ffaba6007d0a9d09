r"""``resampled_t``: the corrected resampled t of Nadeau and Bengio, for random splits of one graph.

Splits of one graph share nodes, so that their differences :math:`d_j` are correlated and Student's
interval is too narrow. With a correlation of :math:`n_2 / (n_1 + n_2)`, for :math:`n_1` nodes whose
labels were used and :math:`n_2` test nodes, the variance of the mean is

.. math:: \Big(\frac{1}{J} + \frac{n_2}{n_1}\Big) \, \hat\sigma^2, \qquad J - 1 \text{ degrees}.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.comparisons.difference import LEVEL, Difference, t_difference


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
