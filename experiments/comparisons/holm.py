"""``holm``: p-values corrected for the number of comparisons, by Holm's step-down rule."""

from __future__ import annotations

from collections.abc import Sequence


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
