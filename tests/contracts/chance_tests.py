"""How likely a count would be by chance: the statistics that the draws are held to.

Every statistic ends in a p-value. All inputs are fixed, so a test either always passes or always
fails; ``IMPLAUSIBLE`` is so small that the ten thousand or so p-values of the whole suite would
not, by bad luck, condemn a perfect generator once in a million tries.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

Words = npt.NDArray[np.uint32]
Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

IMPLAUSIBLE = 1e-10

_ONES: Counts = np.array([value.bit_count() for value in range(1 << 16)])


def chi_square(counts: Counts, expected: Floats | float | None = None) -> float:
    """p-value of counts per cell, which may also be suspiciously even; uniform if not told."""
    mean = counts.sum() / counts.size if expected is None else expected
    statistic = float(((counts - mean) ** 2 / mean).sum())
    freedom = counts.size - 1
    return two_sided(stats.chi2.cdf(statistic, freedom), stats.chi2.sf(statistic, freedom))


def two_sided(below: float, above: float) -> float:
    return min(1.0, 2.0 * min(float(below), float(above)))


def normal(scores: Floats | float) -> float:
    """p-value of independent standard normal scores: of the largest, and of their squares."""
    scores = np.atleast_1d(np.asarray(scores, dtype=np.float64))
    largest = 2.0 * stats.norm.sf(np.abs(scores).max()) * scores.size
    squares = float((scores**2).sum())
    together = two_sided(stats.chi2.cdf(squares, scores.size), stats.chi2.sf(squares, scores.size))
    return float(min(1.0, largest, together))


def poisson(count: int, expected: float) -> float:
    return two_sided(stats.poisson.cdf(count, expected), stats.poisson.sf(count - 1, expected))


def fair(heads: Counts, throws: int) -> float:
    """p-value of numbers of heads, each out of ``throws`` throws of a fair coin."""
    return normal(np.asarray((2.0 * heads - throws) / math.sqrt(throws)))


def repeats(values: npt.NDArray[Any]) -> int:
    """How many values are equal to another one that was counted before."""
    ordered = np.sort(values, axis=None)
    return int((ordered[1:] == ordered[:-1]).sum())


def hamming_weight(words: Words) -> Counts:
    """How many of the 32 bits of each word are set."""
    return np.asarray(_ONES[words & 0xFFFF] + _ONES[words >> 16])


VIEWS: dict[str, Callable[[Words], Any]] = {
    "low draw": lambda word: word & 0xFFFF,
    "high draw": lambda word: word >> 16,
    "leading bytes": lambda word: (word >> 8 & 0xFF) | (word >> 16 & 0xFF00),
    "trailing bytes": lambda word: (word & 0xFF) | (word >> 8 & 0xFF00),
}
"""16 bits of a lane: either of its two draws, or the leading or trailing halves of both."""

CELLS = 64
_HEAVIEST = 33
_WEIGHTS = stats.binom.pmf(np.arange(_HEAVIEST), 32, 0.5)


class WordCounts:
    """Counts that tell whether words are uniform: on 65536 cells in every view, and bit by bit."""

    def __init__(self) -> None:
        self.size = 0
        self.cells = {name: np.zeros(1 << 16, dtype=np.int64) for name in VIEWS}

    def add(self, words: Words) -> None:
        self.size += words.size
        for name, view in VIEWS.items():
            self.cells[name] += np.bincount(view(words).astype(np.intp), minlength=1 << 16)

    def p_values(self) -> dict[str, float]:
        result = {name: chi_square(cells) for name, cells in self.cells.items()}
        for name in ("low draw", "high draw"):
            bits = self.cells[name].reshape((2,) * 16)
            ones = [bits.take(1, axis=axis).sum() for axis in range(16)]
            result[f"bits of the {name}"] = fair(np.array(ones), self.size)
        return result


class PairCounts:
    """Counts that tell whether two sequences of uniform lanes are independent of each other.

    - each draw of one with each draw of the other: on 64 x 64 cells, and their correlation;
    - what joins them bit by bit and as numbers: their exclusive or, and their difference;
    - whether many ones in one go with many, or few, in the other.
    """

    def __init__(self) -> None:
        self.size = 0
        self.cells = np.zeros((2, 2, CELLS * CELLS), dtype=np.int64)
        self.products = np.zeros((2, 2))
        self.joined = {"exclusive or": WordCounts(), "difference": WordCounts()}
        self.weights = np.zeros(_HEAVIEST**2, dtype=np.int64)

    def add(self, first: Words, second: Words) -> None:
        self.size += first.size
        draws = [(words & 0xFFFF, words >> 16) for words in (first, second)]
        centred = [[half - 32767.5 for half in halves] for halves in draws]
        for one in range(2):
            for other in range(2):
                cell = (draws[0][one] >> 10) * CELLS + (draws[1][other] >> 10)
                self.cells[one, other] += np.bincount(cell.astype(np.intp), minlength=CELLS * CELLS)
                self.products[one, other] += centred[0][one] @ centred[1][other]
        self.joined["exclusive or"].add(first ^ second)
        self.joined["difference"].add(first - second)
        weight = hamming_weight(first) * _HEAVIEST + hamming_weight(second)
        self.weights += np.bincount(weight, minlength=_HEAVIEST**2)

    def p_values(self) -> dict[str, float]:
        halves = ("low", "high")
        result = {}
        variance = (2.0**32 - 1.0) / 12.0
        for one in range(2):
            for other in range(2):
                name = f"{halves[one]} and {halves[other]} draw"
                result[f"cells of {name}"] = chi_square(self.cells[one, other])
                score = self.products[one, other] / (variance * math.sqrt(self.size))
                result[f"correlation of {name}"] = normal(score)
        for name, counts in self.joined.items():
            result |= {f"{name}, {view}": p for view, p in counts.p_values().items()}
        expected = np.outer(_WEIGHTS, _WEIGHTS).ravel() * self.size
        usual = expected >= 10.0
        pooled = np.append(self.weights[usual], self.weights[~usual].sum())
        result["Hamming weights"] = chi_square(
            pooled, np.append(expected[usual], expected[~usual].sum())
        )
        return result


def assert_plausible(p_values: dict[str, float]) -> None:
    name = min(p_values, key=p_values.__getitem__)
    assert p_values[name] > IMPLAUSIBLE, f"{name}: p = {p_values[name]:.1e}"


def assert_condemned(p_values: dict[str, float]) -> None:
    """A generator that is known to be bad does not pass for a good one."""
    name = min(p_values, key=p_values.__getitem__)
    assert p_values[name] < IMPLAUSIBLE, f"not even {name}: p = {p_values[name]:.1e}"
