"""The counter-based generator: 16 random bits for every connection, from a key and two ids.

A draw is a pure function of a key and of the ids of the two nodes that an edge joins, so a mask
takes no memory: it is computed again wherever it is needed. The construction has three stages:

1. ``stream_key`` hashes (seed, step, layer, sample) word by word into two 64-bit words. Every
   word passes through the finaliser before the next one enters: a seed and its successor share
   nothing.
2. ``edge_hash`` hashes (destination, source) under the first word and the rank among parallel
   edges under the second into 64 bits: two multiply-xorshift rounds, a bijection of the pair.
3. ``lane`` expands one edge's 64 bits into 32-bit lanes: the low word is where a walk starts, the
   high word its stride, and every place on the walk goes through a two-round 32-bit finaliser.
   A lane is a bijection of the start, hence exactly uniform; two lanes an odd distance apart are
   a bijection of start and stride, hence exactly independent. Each lane gives two 16-bit draws.

Stage 3 uses only 32-bit operations, which fill the vector units of a CPU: that is what makes a
mask per feature nearly free. The functions here are plain torch on any device (64-bit integers,
masked to emulate unsigned shifts); the fused kernel computes the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

MASK32 = 0xFFFFFFFF
MASK64 = 0xFFFFFFFFFFFFFFFF
MIX_MULTIPLIER = 0x0E9846AF9B1A615D
RANK_MULTIPLIER = 0x9E3779B97F4A7C15
LANE_MULTIPLIERS = (0x7FEB352D, 0x846CA68B)
SOURCE_ONLY = MASK32  # stands for the destination where a draw belongs to the source node alone
DRAW_BITS = 16


def _mix(word: int) -> int:
    """The 64-bit finaliser on a Python integer."""
    word &= MASK64
    for _ in range(2):
        word ^= word >> 32
        word = word * MIX_MULTIPLIER & MASK64
    return word ^ word >> 28


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def stream_key(seed: int, step: int = 0, layer: int = 0, sample: int = 0) -> Tensor:
    """The key of the random stream of one layer in one forward pass, ``[2]`` int64."""
    state = _absorb(_state_of_layer(seed, step, layer), "sample", sample)
    return torch.tensor([_signed(_mix(state ^ 1)), _signed(_mix(state ^ 2))], dtype=torch.int64)


@lru_cache(maxsize=64)
def _state_of_layer(seed: int, step: int, layer: int) -> int:
    """The part of the key that all samples of a layer share."""
    state = 0
    for name, word in (("seed", seed), ("step", step), ("layer", layer)):
        state = _absorb(state, name, word)
    return state


def _absorb(state: int, name: str, word: int) -> int:
    if not -(1 << 63) <= word <= MASK64:
        raise ValueError(f"{name} is {word}; it takes an integer of at most 64 bits.")
    # the odd constant keeps a zero word from being the identity
    return _mix(_mix(word + RANK_MULTIPLIER) ^ state)


def uniforms(key: Tensor, count: int) -> Tensor:
    """``count`` float64 uniforms in (0, 1) with 52 random bits.

    For the numbers that a layer needs besides its masks, such as a random keep probability. They
    are independent of all edges: the destination is an id that no node has.
    """
    if count == 1 and key.device.type == "cpu":
        return first_uniforms([key])
    index = torch.arange(count, dtype=torch.int64, device=key.device)
    bits = edge_hash(key, torch.full_like(index, SOURCE_ONLY - 1), index)
    return (_shift_right(bits, 12).to(torch.float64) + 0.5) * 2.0**-52


def first_uniforms(keys: Sequence[Tensor]) -> Tensor:
    """``uniforms(key, 1)`` of every key, the same bits: quicker without tensors."""
    numbers = []
    for key in keys:
        first, second = key.tolist()
        word = ((SOURCE_ONLY - 1) << 32) ^ (first & MASK64)
        word = (word ^ word >> 32) * MIX_MULTIPLIER + second & MASK64
        word = (word ^ word >> 32) * MIX_MULTIPLIER & MASK64
        word ^= word >> 28
        numbers.append(((word >> 12) + 0.5) * 2.0**-52)
    return torch.tensor(numbers, dtype=torch.float64)


def _shift_right(word: Tensor, bits: int) -> Tensor:
    """Logical shift of int64, which torch shifts arithmetically."""
    return (word >> bits) & ((1 << (64 - bits)) - 1)


def edge_hash(
    key: Tensor, destination: Tensor, source: Tensor, rank: Tensor | None = None
) -> Tensor:
    """64 bits for every edge, as int64; node ids are below 2**32 - 2."""
    multiplier = _signed(MIX_MULTIPLIER)
    word = ((destination.to(torch.int64) << 32) | source.to(torch.int64)) ^ key[0]
    word = (word ^ _shift_right(word, 32)) * multiplier + key[1]
    if rank is not None:
        word = word + rank.to(torch.int64) * _signed(RANK_MULTIPLIER)
    word = (word ^ _shift_right(word, 32)) * multiplier
    return word ^ _shift_right(word, 28)


def lane(edge_bits: Tensor, index: Tensor) -> Tensor:
    """32-bit lane ``index`` of each edge's stream, as int64 in [0, 2**32)."""
    start, stride = edge_bits & MASK32, _shift_right(edge_bits, 32)
    word = (start + index.to(torch.int64) * stride) & MASK32
    word = ((word ^ (word >> 16)) * LANE_MULTIPLIERS[0]) & MASK32
    word = ((word ^ (word >> 15)) * LANE_MULTIPLIERS[1]) & MASK32
    return word ^ (word >> 16)


def draw_bits(edge_bits: Tensor, draw: Tensor) -> Tensor:
    """16-bit draw number ``draw`` of each edge: shapes [E, 1] and [D] give [E, D].

    Draws 0..15 are the low halves of lanes 0..15, draws 16..31 their high halves, and so on in
    groups of 32: a vector of lanes serves two adjacent vectors of features.
    """
    word = lane(edge_bits, draw // 32 * 16 + draw % 16)
    return (word >> (draw // 16 % 2 * 16)) & 0xFFFF
