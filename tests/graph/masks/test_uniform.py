"""Every lane, every draw and every bit is uniform, and so are the numbers beside the masks."""

import numpy as np
import pytest
import torch
from scipy import stats

from contracts.chance_tests import (
    WordCounts,
    assert_plausible,
    chi_square,
    fair,
    repeats,
)
from contracts.mask_relations import GENERATOR, Construction, edges
from graphdrop.graph.masks import (
    draw_bits,
    edge_hash,
    stream_key,
    uniforms,
)

LANES = 64


def every_lane(construction: Construction, size: int) -> dict[str, float]:
    """All lanes together on 65536 cells, and each of them on 256 cells and bit by bit."""
    total = WordCounts()
    leading = np.zeros((LANES, 2, 256), dtype=np.int64)
    ones = np.zeros((LANES, 32), dtype=np.int64)
    count = 1 << 13
    for chunk in range(size // count):
        bits = construction.edge_hash(stream_key(21, step=chunk), *edges(chunk, count))
        words = construction.lanes(bits, *range(LANES))
        total.add(words.ravel())
        for index, lane in enumerate(np.ascontiguousarray(words.T)):
            for half, byte in enumerate((lane >> 8 & 0xFF, lane >> 24)):
                leading[index, half] += np.bincount(byte, minlength=256)
            bits_of_lane = np.unpackbits(lane.view(np.uint8).reshape(-1, 4), axis=1)
            ones[index] += bits_of_lane.sum(axis=0, dtype=np.int64)
    result = total.p_values()
    for index in range(LANES):
        result[f"low draw of lane {index}"] = chi_square(leading[index, 0])
        result[f"high draw of lane {index}"] = chi_square(leading[index, 1])
    return result | {"bits of all lanes": fair(ones, size // count * count)}


def test_lanes_draws_and_bits_are_uniform() -> None:
    assert_plausible(every_lane(GENERATOR, 1 << 17))


@pytest.mark.slow
def test_a_billion_draws_are_uniform() -> None:
    assert_plausible(every_lane(GENERATOR, 1 << 23))


def test_the_draws_of_one_feature_over_all_edges_and_steps_are_uniform() -> None:
    features = torch.tensor([0, 15, 16, 31, 32, 127])
    for step in range(2):
        bits = edge_hash(stream_key(22, step), *edges(step, 1 << 19))
        values = draw_bits(bits[:, None], features).numpy()
        assert_plausible(
            {
                f"feature {feature}": chi_square(
                    np.bincount(values[:, column] >> 4, minlength=4096)
                )
                for column, feature in enumerate(features.tolist())
            }
        )


def test_numbers_beside_the_masks_are_uniform() -> None:
    drawn = np.concatenate([uniforms(stream_key(23, step), 200_000).numpy() for step in range(5)])
    assert drawn.dtype == np.float64
    assert repeats(drawn) == 0
    assert_plausible({"Kolmogorov-Smirnov": float(stats.kstest(drawn, "uniform").pvalue)})
