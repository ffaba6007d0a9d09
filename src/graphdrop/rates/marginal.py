"""A relaxed mask whose keep probability is drawn for it alone: the marginal distribution.

    s = logit(pi) + logit(u),    z = sigmoid(s / t),    pi ~ Kumaraswamy(a, b),    u uniform

Two draws make such a mask. One is enough: with `G` the distribution function of `s`, the `k`-th of
`2^bits` draws gives `s_k = G^-1((k + 1/2) / 2^bits)`. That is a table, and implicit differentiation
of `G(s_k; a, b) = const` gives it a gradient,

    ds_k/da = -(dG/da) / (dG/ds),    the same for b.

`G` is the convolution of the Kumaraswamy distribution of `logit(pi)` with the logistic density of
`logit(u)`. Being a mixture of logistic functions, `log G` and the logarithm of its density change by
at most 1 over a unit of `s`, whatever `a` and `b` are; so does the trapezoidal rule converge on a
grid of step 0.1, and between its points a cubic is good to six digits.
"""

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from torch import Tensor

from graphdrop.draws import DRAW_BITS, TABLE_BITS, Table
from graphdrop.draws.rule import LEAST_WIDTH

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
    scores = _STEP * np.arange(-steps, steps + 1)
    below, density, *moved = _distribution(scores, a, b)
    bits = DRAW_BITS if temperature * density[steps] < LEAST_WIDTH else TABLE_BITS
    wanted = (np.arange(1 << bits) + 0.5) / (1 << bits)
    score = _inverted(wanted, scores, below, density)
    kept, rest = expit(score / temperature), expit(-score / temperature)
    # what lies beyond the grid is certain, and its slope 0
    inside = (wanted > below[0]) & (wanted < below[-1])
    steepness = np.where(inside, kept * rest / temperature, 0.0)
    speeds = -np.stack(moved) / np.maximum(density, _TINY)
    slopes = np.where(inside, steepness * _between(score, scores, speeds), 0.0)
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


def _inverted(wanted: Floats, scores: Floats, below: Floats, density: Floats) -> Floats:
    """The scores at which `below` has the wanted values, by cubic Hermite interpolation."""
    below = np.maximum.accumulate(below)
    left = np.clip(np.searchsorted(below, wanted, side="right") - 1, 0, len(scores) - 2)
    rise = np.maximum(below[left + 1] - below[left], _TINY)
    x = np.clip((wanted - below[left]) / rise, 0.0, 1.0)
    leave, arrive = (rise / np.maximum(density[left + end], _TINY) for end in (0, 1))
    smooth = x * x * (3.0 - 2.0 * x)
    bend = x * (1.0 - x) * ((1.0 - x) * leave - x * arrive)
    score: Floats = scores[left] + _STEP * smooth + bend
    return score


def _between(score: Floats, scores: Floats, values: Floats) -> Floats:
    """`values [..., grid]` at scores between those of the grid, by cubics through four points."""
    place = (score - scores[0]) / _STEP
    left = np.clip(place.astype(np.int64), 1, len(scores) - 3)
    x = place - left
    weights = (
        -x * (x - 1.0) * (x - 2.0) / 6.0,
        (x + 1.0) * (x - 1.0) * (x - 2.0) / 2.0,
        -(x + 1.0) * x * (x - 2.0) / 2.0,
        (x + 1.0) * x * (x - 1.0) / 6.0,
    )
    result: Floats = sum(
        (weight * values[..., left + offset] for offset, weight in enumerate(weights, -1)),
        start=np.zeros(1),
    )
    return result
