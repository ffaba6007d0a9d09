"""Draws are the bits that exact integer arithmetic gives, whatever torch does to int64."""

import random

import pytest
import torch
from torch import Tensor

from graphdrop.graph.masks import MASK32, SOURCE_ONLY, draw_bits, edge_hash, lane, stream_key

WORD = 1 << 64
LARGEST_ID = 2**32 - 3


def scramble(word: int, first: int, second: int) -> int:
    """Two rounds of xor-shift and multiplication with what is added in between."""
    word ^= word >> 32
    word = (word * 0x0E9846AF9B1A615D + first) % WORD
    word ^= word >> 32
    word = (word * 0x0E9846AF9B1A615D + second) % WORD
    return word ^ word >> 28


def exact_key(*words: int) -> tuple[int, int]:
    state = 0
    for word in words:
        state ^= scramble((word + 0x9E3779B97F4A7C15) % WORD, 0, 0)
        state = scramble(state, 0, 0)
    return scramble(state ^ 1, 0, 0), scramble(state ^ 2, 0, 0)


def exact_hash(key: tuple[int, int], destination: int, source: int, rank: int = 0) -> int:
    pair = destination * 2**32 + source
    return scramble(pair ^ key[0], (key[1] + rank * 0x9E3779B97F4A7C15) % WORD, 0)


def exact_lane(bits: int, index: int) -> int:
    stride, start = divmod(bits, 2**32)
    word = (start + index * stride) % 2**32
    word ^= word >> 16
    word = word * 0x7FEB352D % 2**32
    word ^= word >> 15
    word = word * 0x846CA68B % 2**32
    return word ^ word >> 16


def unsigned(words: Tensor) -> list[int]:
    return [word % WORD for word in words.tolist()]


@pytest.fixture
def chance() -> random.Random:
    return random.Random(20)


@pytest.mark.parametrize(
    "words",
    [(0, 0, 0, 0), (1, 2, 3, 4), (-1, 0, 0, 0), (-(2**63), 7, 0, 1), (2**64 - 1, 2**40, 3, 2**31)],
)
def test_a_key_is_what_integers_give(words: tuple[int, int, int, int]) -> None:
    key = stream_key(*words)
    assert key.dtype == torch.int64
    assert unsigned(key) == list(exact_key(*words))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("ranked", [False, True])
def test_an_edge_hash_is_what_integers_give(
    chance: random.Random, dtype: torch.dtype, ranked: bool
) -> None:
    largest = LARGEST_ID if dtype == torch.int64 else 2**31 - 1
    corners = [0, 1, largest - 1, largest]
    ids = [(v, u) for v in corners for u in corners]
    ids += [(chance.randint(0, largest), chance.randint(0, largest)) for _ in range(2000)]
    ranks = [chance.choice([0, 1, 2, 100_000]) if ranked else 0 for _ in ids]
    destination, source = torch.tensor(ids, dtype=dtype).T
    rank = torch.tensor(ranks, dtype=dtype) if ranked else None
    for number in range(3):
        words = (chance.getrandbits(64), number, number, number)
        hashes = unsigned(edge_hash(stream_key(*words), destination, source, rank))
        exact = [
            exact_hash(exact_key(*words), v, u, r) for (v, u), r in zip(ids, ranks, strict=True)
        ]
        assert hashes == exact


def test_a_draw_of_the_source_alone_has_a_destination_that_no_node_has() -> None:
    source = torch.arange(50)
    hashes = edge_hash(stream_key(5), torch.full_like(source, SOURCE_ONLY), source)
    assert unsigned(hashes) == [exact_hash(exact_key(5, 0, 0, 0), 2**32 - 1, u) for u in range(50)]


def test_a_lane_is_what_integers_give(chance: random.Random) -> None:
    edges = [0, 1, WORD - 1, WORD // 2, *(chance.getrandbits(64) for _ in range(300))]
    bits = torch.tensor([word - WORD if word >= WORD // 2 else word for word in edges])
    indices = [*range(40), 100, 1023, 70_000, 2**31]
    words = lane(bits[:, None], torch.tensor(indices))
    assert words.tolist() == [[exact_lane(word, index) for index in indices] for word in edges]


def test_draws_are_the_halves_of_lanes_in_groups_of_32(chance: random.Random) -> None:
    edges = [chance.getrandbits(63) for _ in range(20)]
    drawn = draw_bits(torch.tensor(edges)[:, None], torch.arange(200))
    expected = []
    for word in edges:
        lanes = [exact_lane(word, index) for index in range(112)]
        halves: list[int] = []
        for group in range(0, 112, 16):
            halves += [value & 0xFFFF for value in lanes[group : group + 16]]
            halves += [value >> 16 for value in lanes[group : group + 16]]
        expected.append(halves[:200])
    assert drawn.tolist() == expected


def test_lanes_an_odd_distance_apart_are_exactly_independent() -> None:
    """Start and stride can be told from two such lanes: every pair of lanes comes up once."""
    inverse = {}
    for index, distance in [(0, 1), (7, 9), (30, 33)]:
        bits = edge_hash(stream_key(6), torch.zeros(1000, dtype=torch.int64), torch.arange(1000))
        one, other = lane(bits, torch.tensor(index)), lane(bits, torch.tensor(index + distance))
        for word, first, second in zip(unsigned(bits), one.tolist(), other.tolist(), strict=True):
            before = [undo_lane(value) for value in (first, second)]
            stride = (before[1] - before[0]) * pow(distance, -1, 2**32) % 2**32
            start = (before[0] - index * stride) & MASK32
            inverse[word] = stride * 2**32 + start
    assert all(word == found for word, found in inverse.items())


def undo_lane(word: int) -> int:
    """The counter that the finaliser turned into this lane."""
    word ^= word >> 16
    word = word * pow(0x846CA68B, -1, 2**32) % 2**32
    word ^= word >> 15 ^ word >> 30
    word = word * pow(0x7FEB352D, -1, 2**32) % 2**32
    return word ^ word >> 16
