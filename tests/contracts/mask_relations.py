"""Pairs of lanes that something connects: one edge, two neighbours, two steps.

A relation gives, chunk by chunk, two equally long arrays of lanes that stand in it. Node ids count
up as they do in a graph, keys come from ``stream_key`` of small numbers: nothing here is random
but the generator under test.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from contracts.chance_tests import PairCounts, Words
from graphdrop.graph import masks as draws


@dataclass(frozen=True)
class Construction:
    """The three stages of the generator, each of which a test may replace by a bad one."""

    stream_key: Callable[..., Tensor] = draws.stream_key
    edge_hash: Callable[..., Tensor] = draws.edge_hash
    lane: Callable[[Tensor, Tensor], Tensor] = draws.lane

    def lanes(self, edge_bits: Tensor, *indices: int) -> Words:
        """Lanes [edges, indices] as 32-bit words."""
        words = self.lane(edge_bits[..., None], torch.tensor(indices))
        return words.numpy().astype(np.uint32)


GENERATOR = Construction()
CHUNK = 1 << 17

Relation = Callable[[Construction, int], tuple[Words, Words]]


def edges(chunk: int, count: int = CHUNK) -> tuple[Tensor, Tensor]:
    """Destinations and sources that count up from chunk to chunk, 512 sources to a destination."""
    number = torch.arange(chunk * count, (chunk + 1) * count)
    return number // 512, number % 512


def keys(chunk: int, construction: Construction, **change: int) -> Tensor:
    """256 keys [2, 256, 1] of even seeds, steps, layers and samples, moved by the given change."""
    names = []
    for number in range(256):
        name = {"seed": 2 * chunk, "step": 2 * number, "layer": 4, "sample": number % 8 * 2}
        for word, shift in change.items():
            name[word] += shift
        names.append(construction.stream_key(**name))
    return torch.stack(names, dim=1)[:, :, None]


def lanes_of_one_edge(
    distance: int, offset: int, construction: Construction, chunk: int
) -> tuple[Words, Words]:
    """Lanes this far apart; every lane is in one pair only."""
    pairs = 32
    number = np.arange(pairs)
    index = offset + number // distance * 2 * distance + number % distance
    bits = construction.edge_hash(draws.stream_key(1), *edges(chunk, CHUNK // pairs))
    words = construction.lanes(bits, *index, *(index + distance))
    return words[:, :pairs].ravel(), words[:, pairs:].ravel()


def other_nodes(
    move: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    construction: Construction,
    chunk: int,
) -> tuple[Words, Words]:
    """An edge and the one that its node ids are moved to."""
    # Destinations in steps of 16, none of them a source: no move leads into another pair.
    destination, source = edges(chunk)
    destination = 1024 + 16 * destination
    key, index = draws.stream_key(2), 16 * (chunk % 4)
    bits = construction.edge_hash(key, destination, source)
    moved = construction.edge_hash(key, *move(destination, source))
    return construction.lanes(bits, index).ravel(), construction.lanes(moved, index).ravel()


def other_source(step: int, construction: Construction, chunk: int) -> tuple[Words, Words]:
    """Sources this far apart; every edge is in one pair only."""
    number = torch.arange(chunk * CHUNK, (chunk + 1) * CHUNK)
    place = number % 512
    source = place // step * 2 * step + place % step
    key = draws.stream_key(3)
    one = construction.edge_hash(key, number // 512, source)
    other = construction.edge_hash(key, number // 512, source + step)
    return construction.lanes(one, 5).ravel(), construction.lanes(other, 5).ravel()


def one_bit_of_the_ids(construction: Construction, chunk: int) -> tuple[Words, Words]:
    """Two edges whose 64 bits of ids differ in one, each of them in turn."""
    bit = torch.arange(CHUNK) % 64
    number = torch.arange(chunk * CHUNK, (chunk + 1) * CHUNK)
    destination, source = 3 * number, 5 * number + 7
    key = draws.stream_key(4)
    flip = torch.ones_like(bit) << bit % 32
    moved = (destination ^ flip * (bit >= 32), source ^ flip * (bit < 32))
    one = construction.edge_hash(key, destination, source)
    other = construction.edge_hash(key, *moved)
    return construction.lanes(one, 0).ravel(), construction.lanes(other, 0).ravel()


def other_key(
    construction: Construction, chunk: int, nodes: int = 0, lane: int = 0, **change: int
) -> tuple[Words, Words]:
    """The same edge under two keys, or one with its source and its lane moved as well."""
    destination, source = edges(chunk, CHUNK // 256)
    one = construction.edge_hash(keys(chunk, construction), destination, source)
    changed = keys(chunk, construction, **change)
    other = construction.edge_hash(changed, destination, source + nodes)
    return construction.lanes(one, 0).ravel(), construction.lanes(other, lane).ravel()


def other_key_word(word: int, construction: Construction, chunk: int) -> tuple[Words, Words]:
    """The same edge under two keys that differ in one bit of one word."""
    destination, source = edges(chunk, CHUNK // 256)
    key = keys(chunk, construction)
    changed = key.clone()
    # The lowest 9 bits of the first word do what the bits of the sources do: they stay.
    changed[word, :, 0] ^= torch.ones(256, dtype=torch.int64) << 9 + torch.arange(256) % 55
    one = construction.edge_hash(key, destination, source)
    other = construction.edge_hash(changed, destination, source)
    return construction.lanes(one, 3).ravel(), construction.lanes(other, 3).ravel()


def other_rank(step: int, construction: Construction, chunk: int) -> tuple[Words, Words]:
    """Two parallel edges."""
    destination, source = edges(chunk)
    key, rank = draws.stream_key(5), source % 4 * 2 * step
    one = construction.edge_hash(key, destination, source, rank)
    other = construction.edge_hash(key, destination, source, rank + step)
    return construction.lanes(one, 1).ravel(), construction.lanes(other, 1).ravel()


def key_words(construction: Construction, chunk: int) -> tuple[Words, Words]:
    """The two words of a key, 32 bits of each."""
    first, second = keys(chunk, construction).squeeze(-1).numpy().view(np.uint64)
    return (
        np.concatenate([first >> 32, first]).astype(np.uint32),
        np.concatenate([second >> 32, second]).astype(np.uint32),
    )


LANES: dict[str, Relation] = {
    f"lanes {distance} apart from {offset}": partial(lanes_of_one_edge, distance, offset)
    for distance, offset in [
        (1, 0), (1, 1), (2, 0), (3, 5), (4, 0), (7, 0), (8, 0), (15, 0), (16, 0), (17, 0),
        (32, 0), (61, 0), (84, 0), (152, 0), (512, 0),
    ]
}  # fmt: skip

NODES: dict[str, Relation] = {
    "neighbouring destinations": partial(other_nodes, lambda v, u: (v + 1, u)),
    "both nodes next to each other": partial(other_nodes, lambda v, u: (v + 1, u + 1)),
    "neighbouring sources": partial(other_source, 1),
    "sources 64 apart": partial(other_source, 64),
    "an edge and its reverse": partial(other_nodes, lambda v, u: (u, v)),
    "ids that differ in one bit": one_bit_of_the_ids,
    "parallel edges": partial(other_rank, 1),
    "parallel edges 16 ranks apart": partial(other_rank, 16),
}

KEYS: dict[str, Relation] = {
    "consecutive seeds": partial(other_key, seed=1),
    "consecutive steps": partial(other_key, step=1),
    "consecutive layers": partial(other_key, layer=1),
    "consecutive samples": partial(other_key, sample=1),
    "a seed and the next, a node further": partial(other_key, seed=1, nodes=1),
    "a step and the next, a lane further": partial(other_key, step=1, lane=1),
    "a bit of the first key word": partial(other_key_word, 0),
    "a bit of the second key word": partial(other_key_word, 1),
}


def related(relation: Relation, pairs: int, construction: Construction = GENERATOR) -> PairCounts:
    """Counts over at least this many pairs of a relation."""
    counts, chunk = PairCounts(), 0
    while counts.size < pairs:
        counts.add(*relation(construction, chunk))
        chunk += 1
    return counts
