"""Streams never meet: no key, edge or lane leads to where another one has been."""

import itertools

import pytest
import torch
from torch import Tensor

from contracts.chance_tests import repeats
from contracts.mask_relations import GENERATOR, Construction
from graphdrop.graph.masks import stream_key

SEEDS = [0, 1, 2, 1000, -1, -2, 2**31, 2**32, 2**32 + 1, -(2**63), 2**63 + 1, 2**64 - 3]


def test_keys_of_small_and_of_extreme_numbers_share_no_word() -> None:
    names = itertools.product(SEEDS, range(50), range(6), range(6))
    words = torch.stack([stream_key(*name) for name in names])
    assert repeats(words.numpy()) == 0


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("seed", 2**64),
        ("seed", -(2**63) - 1),
        ("step", 2**64),
        ("layer", -(2**63) - 1),
        ("sample", 2**64),
    ],
)
def test_a_number_that_64_bits_cannot_hold_is_refused(name: str, number: int) -> None:
    """It would name the stream of another number."""
    with pytest.raises(ValueError, match=rf"{name} is {number}; it takes"):
        stream_key(**{"seed": 0, name: number})


def random_graph(nodes: int, edges: int) -> tuple[Tensor, Tensor]:
    """Distinct edges of a random graph, every node's self-loop among them."""
    pairs = torch.randperm(nodes * nodes, generator=torch.Generator().manual_seed(0))[:edges]
    loops = torch.arange(nodes) * (nodes + 1)
    pairs = torch.cat([pairs[~torch.isin(pairs, loops)], loops])
    return pairs // nodes, pairs % nodes


def repeated_edges(construction: Construction) -> int:
    """Edge hashes that come up again in 300 training steps: of seeds, steps and layers."""
    destination, source = random_graph(3000, 12_000)
    hashes = [
        construction.edge_hash(construction.stream_key(seed, step, layer, 0), destination, source)
        for seed in range(2)
        for step in range(75)
        for layer in range(2)
    ]
    return repeats(torch.cat(hashes).numpy())


def test_no_edge_repeats_its_stream_or_another_edges_over_steps_layers_and_seeds() -> None:
    assert repeated_edges(GENERATOR) == 0


KEYS, EDGES = 128, 32


@pytest.fixture(scope="module")
def names() -> list[dict[str, int]]:
    return [{"seed": 17 * n, "step": n, "layer": n % 4, "sample": n % 7} for n in range(KEYS)]
