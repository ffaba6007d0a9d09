"""The lanes of an edge are independent all together, not only two by two."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from contracts.chance_tests import (
    Counts,
    Words,
    assert_condemned,
    assert_plausible,
    chi_square,
    normal,
)
from contracts.mask_relations import GENERATOR, Construction, edges
from graphdrop.graph.masks import LANE_MULTIPLIERS, MASK32, draw_bits, drop_threshold, stream_key

EDGES = 1 << 18


def lanes(construction: Construction, *indices: int, count: int = EDGES) -> Words:
    """Lanes [indices, edges] of consecutive edges."""
    bits = construction.edge_hash(stream_key(11), *edges(0, count))
    return np.ascontiguousarray(construction.lanes(bits, *indices).T)


def three_lanes(construction: Construction, *indices: int) -> dict[str, float]:
    """Any three draws of three lanes, on 16 x 16 x 16 cells: of leading and of trailing bits."""
    words = lanes(construction, *indices, count=4 * EDGES)
    result = {}
    for halves in range(8):
        for bit in (0, 12):
            cell = np.zeros(words.shape[1], dtype=np.intp)
            for number, lane in enumerate(words):
                shift = bit + (16 if halves >> number & 1 else 0)
                cell = cell * 16 + (lane >> shift & 15)
            result[f"{halves:03b} from {bit}"] = chi_square(np.bincount(cell, minlength=16**3))
    return result


@pytest.mark.parametrize("indices", [(0, 1, 2), (5, 6, 21), (0, 16, 32), (1, 8, 15), (3, 40, 63)])
def test_three_lanes_are_independent(indices: tuple[int, int, int]) -> None:
    assert_plausible(three_lanes(GENERATOR, *indices))


def sixteen_lanes(construction: Construction, stride: int) -> dict[str, float]:
    """One bit of sixteen lanes, on 2**16 cells; and one bit of each of a lane's draws, joined.

    Every parity of bits in this place, over any set of the lanes, is one coefficient of the
    Walsh transform of the counts: a standard normal, were the lanes independent.
    """
    words = lanes(construction, *range(0, 16 * stride, stride))
    result = {}
    for name, folded in (("bit", words), ("joined bits", words ^ (words >> 16))):
        for bit in range(32 if name == "bit" else 16):
            cell = np.zeros(EDGES, dtype=np.uint16)
            for number, lane in enumerate(folded):
                cell |= (lane >> bit & 1).astype(np.uint16) << number
            counts = np.bincount(cell, minlength=1 << 16)
            result[f"{name} {bit}"] = min(chi_square(counts), largest_parity(counts))
    return result


def largest_parity(counts: Counts) -> float:
    transform = counts.astype(np.float64).reshape((2,) * 16)
    for axis in range(16):
        zero, one = transform.take(0, axis), transform.take(1, axis)
        transform = np.stack([zero + one, zero - one], axis)
    return normal(transform.ravel()[1:] / np.sqrt(counts.sum()))


@pytest.mark.parametrize("keep", [0.03, 0.5, 0.8])
def test_how_many_of_an_edges_features_are_kept_is_binomial(keep: float) -> None:
    features, count = 128, EDGES // 2
    threshold = int(drop_threshold(torch.logit(torch.tensor(keep, dtype=torch.float64))))
    kept = np.zeros((count, features), dtype=bool)
    for chunk in range(8):
        bits = GENERATOR.edge_hash(stream_key(12, step=chunk), *edges(chunk, count // 8))
        rows = slice(chunk * count // 8, (chunk + 1) * count // 8)
        kept[rows] = (draw_bits(bits[:, None], torch.arange(features)) >= threshold).numpy()
    exact = 1.0 - threshold / 65536.0
    binomial = stats.binom.pmf(np.arange(features + 1), features, exact) * count
    usual = binomial >= 10.0
    counts = np.bincount(kept.sum(axis=1), minlength=features + 1)
    # what becomes of a feature tells nothing of the next one
    change = 2.0 * exact * (1.0 - exact)
    places = features - 1
    variance = places * change * (1.0 - change) + 2 * (places - 1) * (change / 2.0 - change**2)
    changes = float((kept[:, 1:] != kept[:, :-1]).sum())
    assert_plausible(
        {
            "number kept": chi_square(
                np.append(counts[usual], counts[~usual].sum()),
                np.append(binomial[usual], binomial[~usual].sum()),
            ),
            "changes": normal((changes - count * places * change) / math.sqrt(count * variance)),
        }
    )


def _one_round(edge_bits: Tensor, index: Tensor) -> Tensor:
    """Half of the finaliser: exactly independent two by two, an odd distance apart."""
    word = ((edge_bits & MASK32) + index * (edge_bits >> 32 & MASK32)) & MASK32
    word = ((word ^ (word >> 15)) * LANE_MULTIPLIERS[1]) & MASK32
    return word ^ (word >> 16)


def _third_from_two(edge_bits: Tensor, index: Tensor) -> Tensor:
    """Any two lanes are independent, but two of three give the third away."""
    words = [GENERATOR.lane(edge_bits, index - back) for back in range(3)]
    return torch.where(index % 3 == 2, words[1] ^ words[2], words[0])


def test_lanes_that_are_independent_only_two_by_two_are_condemned() -> None:
    assert_condemned(three_lanes(Construction(lane=_third_from_two), 0, 1, 2))
    assert_condemned(sixteen_lanes(Construction(lane=_one_round), 1))
