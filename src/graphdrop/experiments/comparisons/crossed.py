r"""``crossed``: the interval of a mean difference over seeds and test nodes, both random.

All seeds are scored on the same test nodes. With :math:`d_{si}` the difference of two methods at
seed :math:`s` and node :math:`i`, the model is :math:`d_{si} = \mu + a_s + b_i + e_{si}`, and

.. math:: \mathrm{Var}(\bar d) = \frac{\sigma_a^2}{S} + \frac{\sigma_b^2}{N} +
    \frac{\sigma_e^2}{SN} = \frac{1}{SN} E[MS_a + MS_b - MS_e]

by the mean squares of a two-way table. An interval over seeds alone leaves out :math:`\sigma_b^2`:
other test nodes. Neither has other training nodes in it, of which there is one public split.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphdrop.experiments.comparisons.difference import LEVEL, Difference, t_difference


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
    seeds, nodes = values.shape
    mean = float(values.mean())
    by_seed, by_node = values.mean(1), values.mean(0)
    rest = values - by_seed[:, None] - by_node + mean
    left = (seeds - 1) * (nodes - 1)
    squares = {
        "seed": nodes * float(by_seed.var(ddof=1)),
        "node": seeds * float(by_node.var(ddof=1)),
        "rest": float(np.square(rest).sum()) / left,
    }
    degrees = {"seed": seeds - 1, "node": nodes - 1, "rest": left}
    above = [name for name in ("seed", "node") if squares[name] > squares["rest"]]
    # MS_a + MS_b - MS_e; a component of 0 has MS_e in place of its own
    used = above if len(above) == 1 else [*above, "rest"]
    total = sum(squares[name] for name in above) - (len(above) - 1) * squares["rest"]
    spread = sum(squares[name] ** 2 / degrees[name] for name in used)
    freedom = total**2 / spread if spread > 0.0 else float(left)
    return t_difference(mean, total / (seeds * nodes), freedom, level)
