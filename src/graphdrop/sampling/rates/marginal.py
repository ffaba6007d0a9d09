"""A relaxed mask whose keep probability is drawn for it alone: the marginal distribution.

    s = logit(pi) + logit(u),    z = sigmoid(s / t),    pi ~ Kumaraswamy(a, b),    u uniform

Two draws make such a mask. One is enough: with `G` the distribution function of `s`, the `k`-th of
`2^bits` draws gives `s_k = G^-1((k + 1/2) / 2^bits)`. That is a table, and implicit differentiation
of `G(s_k; a, b) = const` gives it a gradient,

    ds_k/da = -(dG/da) / (dG/ds),    the same for b.

`G` is the convolution of the Kumaraswamy distribution of `logit(pi)`, whose width is never much
below `1 / log(b)`, with the logistic density of `logit(u)`: a trapezoidal rule of step 0.1 is off
by less than 1e-6 for `a`, `b` in [1e-3, 1e3]. As a mixture of logistic functions `log G` and the
logarithm of its density change by at most 1 over a unit of `s`, whatever `a` and `b` are, so that
cubics between the points of that grid are good to four digits and more.
"""

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from torch import Tensor

from graphdrop.graph.masks import DRAW_BITS, TABLE_BITS, Table
from graphdrop.graph.masks.rule import LEAST_WIDTH

Floats = NDArray[np.float64]

_STEP = 0.1
_REACH = 200
"""Steps of noise to either side: beyond them lie 2e-9 of the logistic distribution."""
_CERTAIN = 40.0
"""A mask with `|s| > 40 t` is 0 or 1 to the last digit."""
_FARTHEST = 600.0
"""Scores are cut off here, within what float64 has exponentials for; it matters if `t > 15`."""
_TINY = 1e-300


def _logistic_weights() -> Floats:
    noise = _STEP * np.arange(-_REACH, _REACH + 1)
    density = np.cosh(noise / 2.0) ** -2
    weights: Floats = density / density.sum()
    return weights


_WEIGHTS = _logistic_weights()


def table(a: Tensor, b: Tensor, temperature: float) -> Table:
    """The multipliers of such masks at a temperature, with gradients for the scalars `a`, `b`."""
    multiplier, slopes = _entries(a.item(), b.item(), temperature)
    return Table(multiplier.to(a.device), slopes.to(a.device), torch.stack([a, b]))


@lru_cache(maxsize=32)
@torch.inference_mode(False)
def _entries(a: float, b: float, temperature: float) -> tuple[Tensor, Tensor]:
    """Multipliers `[entries]` and their derivatives by `a` and `b`, `[2, entries]`.

    As everywhere, masks that change within few of 4096 cells have an entry for all 16 bits: where
    `t E[pi (1 - pi)]`, which is `t G'(0)`, is below 2^-10.
    """
    steps = round(min(max(_CERTAIN * temperature, 2.0), _FARTHEST) / _STEP)
    scores: Floats = np.arange(-steps, steps + 1) * np.float64(_STEP)
    below, density, *moved = _distribution(scores, a, b)
    bits = DRAW_BITS if temperature * density[steps] < LEAST_WIDTH else TABLE_BITS
    size = 1 << bits
    cells = _Cells(scores, below, density, size)
    kept = expit(cells.score / temperature)
    # what lies beyond the grid is certain, and its slope 0
    steepness = np.where(cells.inside, kept * (1.0 - kept) / temperature, 0.0)
    density = np.maximum(density, _TINY)
    slopes = np.stack([-steepness * cells.between(one / density) for one in moved])
    return torch.from_numpy(kept), torch.from_numpy(slopes)


def _distribution(scores: Floats, a: float, b: float) -> list[Floats]:
    """`G`, `dG/ds`, `dG/da` and `dG/db` at evenly spaced scores.

    With `y = -a log(pi)` and `L = log(1 - pi^a)` the Kumaraswamy distribution function of
    `x = logit(pi)` is `1 - exp(b L)`.
    """
    margin = _STEP * np.arange(1, _REACH + 1)
    x = np.concatenate([scores[0] - margin[::-1], scores, scores[-1] + margin])
    surprisal = np.logaddexp(0.0, -x)  # -log pi
    y = a * surprisal
    log_rest = np.log(-np.expm1(-y))
    above = np.exp(b * log_rest)
    ratio = y * np.exp(-y) / -np.expm1(-y)
    drop = np.exp(-np.logaddexp(0.0, x))
    by_score = b * above * ratio * drop / surprisal
    parts = (-np.expm1(b * log_rest), by_score, -b / a * above * ratio, -log_rest * above)
    return [np.convolve(part, _WEIGHTS, mode="valid") for part in parts]


class _Cells:
    """The entries of a table, each in the cell of the grid in which its score lies.

    Entries rise as the grid does, so those of a cell follow one another, and what belongs to a
    cell is repeated for each of them.
    """

    def __init__(self, scores: Floats, below: Floats, density: Floats, size: int) -> None:
        wanted = (np.arange(size) + 0.5) / size
        below = np.maximum.accumulate(below)
        ends = np.clip(np.ceil(below * size - 0.5), 0, size).astype(np.int64)
        ends[0], ends[-1] = 0, size  # what lies beyond the grid belongs to its ends
        self.counts = np.diff(ends)
        self.inside = (wanted > below[0]) & (wanted < below[-1])
        # the inverse of the distribution function, by cubic Hermite interpolation
        rise = np.maximum(np.diff(below), _TINY)
        x = np.clip((wanted - self._of_cell(below[:-1])) / self._of_cell(rise), 0.0, 1.0)
        leave, arrive = (
            self._of_cell(rise / np.maximum(one, _TINY)) for one in (density[:-1], density[1:])
        )
        smooth, rest = x * x * (3.0 - 2.0 * x), 1.0 - x
        self._within = smooth + x * rest * (rest * leave - x * arrive) / _STEP
        self.score = self._of_cell(scores[:-1]) + _STEP * self._within

    def between(self, values: Floats) -> Floats:
        """`values [grid]` at the scores of the entries, by cubics through four points."""
        before, here, after, later = (
            np.pad(values, (1, 1), "edge")[first : first + len(self.counts)] for first in range(4)
        )
        powers = (
            here,
            after - before / 3.0 - here / 2.0 - later / 6.0,
            (before + after) / 2.0 - here,
            (later - before) / 6.0 + (here - after) / 2.0,
        )
        constant, linear, square, cube = map(self._of_cell, powers)
        x = self._within
        return constant + x * (linear + x * (square + x * cube))

    def _of_cell(self, values: Floats) -> Floats:
        """The value of the cell of every entry."""
        repeated: Floats = np.repeat(values, self.counts)
        return repeated
