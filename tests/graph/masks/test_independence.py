"""Two lanes know nothing of each other, whatever connects them."""

import pytest
import torch
from torch import Tensor

from contracts.chance_tests import assert_condemned, assert_plausible
from contracts.mask_relations import KEYS, LANES, NODES, Construction, Relation, related
from graphdrop.graph.masks import MASK32, edge_hash

PAIRS = 2_500_000  # four draws to a pair
EVERY_RELATION = LANES | NODES | KEYS


@pytest.mark.parametrize("relation", LANES.values(), ids=LANES.keys())
def test_lanes_of_one_edge_are_independent(relation: Relation) -> None:
    assert_plausible(related(relation, PAIRS // 3).p_values())


@pytest.mark.parametrize("relation", NODES.values(), ids=NODES.keys())
def test_edges_that_share_or_exchange_nodes_are_independent(relation: Relation) -> None:
    assert_plausible(related(relation, PAIRS).p_values())


@pytest.mark.parametrize("relation", KEYS.values(), ids=KEYS.keys())
def test_seeds_steps_layers_and_samples_are_independent(relation: Relation) -> None:
    assert_plausible(related(relation, PAIRS).p_values())


@pytest.mark.slow
@pytest.mark.parametrize("relation", EVERY_RELATION.values(), ids=EVERY_RELATION.keys())
def test_a_billion_draws_of_every_relation_are_independent(relation: Relation) -> None:
    assert_plausible(related(relation, 250_000_000).p_values())


def _one_stride_for_all_edges(edge_bits: Tensor, index: Tensor) -> Tensor:
    """The high word only joins in half-way: lanes are then related through 32 bits, not 64."""
    word = ((edge_bits & MASK32) + index * 0x9E3779B9) & MASK32
    word = ((word ^ (word >> 16)) * 0x21F0AAAD) & MASK32
    word = word ^ (edge_bits >> 32 & MASK32)
    word = ((word ^ (word >> 15)) * 0xD35A2D97) & MASK32
    return word ^ (word >> 15)


def _seed_added_last(key: Tensor, destination: Tensor, source: Tensor) -> Tensor:
    """The key moves the result of a good hash, instead of entering it."""
    return edge_hash(torch.zeros_like(key), destination, source) + key[0]


def _plain_key(seed: int, step: int, layer: int, sample: int) -> Tensor:
    return torch.tensor([seed * 1000 + step, layer * 1000 + sample])


@pytest.mark.parametrize(
    ("bad", "relation"),
    [
        (Construction(lane=_one_stride_for_all_edges), "lanes 84 apart from 0"),
        (Construction(edge_hash=_seed_added_last, stream_key=_plain_key), "consecutive seeds"),
        (Construction(stream_key=_plain_key), "a seed and the next, a node further"),
    ],
)
def test_what_is_nearly_right_is_condemned(bad: Construction, relation: str) -> None:
    assert_condemned(related(EVERY_RELATION[relation], PAIRS // 3, bad).p_values())
