"""How a draw becomes a mask: blocks, thresholds, tables, and the descriptions that are refused."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit

from graphdrop.graph.masks import (
    Kind,
    Mask,
    Sharing,
    block_of_feature,
    concrete_logits,
    drop_threshold,
    stream_key,
)

EVERY_DRAW = np.arange(1 << 16)
KEEPS = [0.0, 1e-12, 2.0**-17, 1e-5, 0.1, 1 / 3, 0.5, 0.99999, 1 - 1e-12, 1.0]


def threshold(keep: float) -> int:
    return int(drop_threshold(torch.logit(torch.tensor(keep, dtype=torch.float64))))


@pytest.mark.parametrize("features", [1, 2, 5, 127])
def test_blocks_are_contiguous_and_differ_in_size_by_at_most_one(features: int) -> None:
    for blocks in {1, 2, 3, features // 2, features - 1, features} & set(range(1, features + 1)):
        parts = np.array_split(np.arange(features), blocks)
        expected = np.concatenate([np.full(len(part), i) for i, part in enumerate(parts)])
        assert block_of_feature(features, blocks).tolist() == expected.tolist()


@pytest.mark.parametrize("keep", KEEPS)
def test_a_draw_is_kept_where_its_uniform_exceeds_the_drop_probability(keep: float) -> None:
    kept = [Fraction(2 * int(k) + 1, 2**17) > 1 - Fraction(keep) for k in EVERY_DRAW]
    assert (threshold(keep) <= EVERY_DRAW).tolist() == kept
    # ``1 - u`` is a draw too, and keeps where ``u < keep``: ARM's second pass, ties included.
    complement = (1 << 16) - 1 - EVERY_DRAW
    below = [Fraction(2 * int(k) + 1, 2**17) < Fraction(keep) for k in EVERY_DRAW]
    assert (threshold(keep) <= complement).tolist() == below


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_logit_has_the_threshold_that_it_has_among_many(dtype: torch.dtype) -> None:
    logits = torch.linspace(-14.0, 14.0, 5001, dtype=dtype)
    together = drop_threshold(logits)
    assert together.dtype == torch.int32
    assert together.tolist() == [int(drop_threshold(logit)) for logit in logits]


def test_the_antithetic_draw_is_exactly_the_complement() -> None:
    complement = (1 << 16) - 1 - EVERY_DRAW
    assert np.array_equal((complement + 0.5) / 2**16, 1.0 - (EVERY_DRAW + 0.5) / 2**16)


def test_the_table_is_the_logit_of_the_middle_of_each_of_4096_cells() -> None:
    uniform = (np.arange(4096) + 0.5) / 4096
    expected = np.log(uniform) - np.log1p(-uniform)
    np.testing.assert_allclose(concrete_logits(torch.float64).numpy(), expected, rtol=1e-12)
    assert torch.equal(concrete_logits(torch.float32), concrete_logits(torch.float64).float())


@pytest.mark.parametrize(("keep_logit", "temperature"), [(-4.0, 2.0), (0.0, 0.1), (2.0, 0.67)])
def test_a_concrete_mask_is_within_2_to_the_minus_13_of_the_concrete_distribution(
    keep_logit: float, temperature: float
) -> None:
    """``P(z <= x) = sigmoid(t logit(x) - keep logit)``, compared at any ``logit(x)``."""
    values = np.sort((keep_logit + concrete_logits(torch.float64).numpy()) / temperature)
    at = np.concatenate([np.linspace(-150.0, 150.0, 100_001), values, np.nextafter(values, -200.0)])
    drawn = np.searchsorted(values, at, side="right") / len(values)
    distance = np.abs(drawn - expit(temperature * at - keep_logit)).max()
    assert distance <= 2.0**-13 * (1.0 + 1e-9)
    assert distance > 2.0**-13 * 0.999  # the bound is the distance: nothing is left to claim


def mask(**change: Any) -> Mask:
    return replace(Mask(Kind.HARD, torch.tensor(0.0), stream_key(0)), **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"blocks": 0}, r"blocks is 0; it takes"),
        ({"blocks": -3}, r"blocks is -3; it takes"),
        ({"temperature": 0.0}, r"temperature is 0\.0; it takes"),
        ({"temperature": -1.0}, r"temperature is -1\.0; it takes"),
        ({"temperature": math.nan}, r"temperature is nan; it takes"),
        ({"keep_logit": torch.zeros(2, 3)}, r"keep_logit has shape \(2, 3\); it takes a scalar"),
        ({"key": torch.zeros(3, dtype=torch.int64)}, r"key has shape \(3,\).*stream_key"),
        ({"key": torch.zeros(2)}, r"key .*torch\.float32; .*stream_key"),
        (
            {"symmetric": True, "sharing": Sharing.SOURCE},
            r"symmetric is True; it takes sharing='edge'",
        ),
    ],
)
def test_a_mask_that_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mask(**change)


def test_an_edge_reads_a_draw_for_each_block_or_feature() -> None:
    assert mask(blocks=3).draws_per_edge(10) == 3
    assert mask(blocks=None).draws_per_edge(10) == 10
    with pytest.raises(
        ValueError, match=r"blocks is 11; it takes at most the number of features, 10"
    ):
        mask(blocks=11).draws_per_edge(10)
