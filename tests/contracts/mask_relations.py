"""Pairs of lanes that something connects: one edge, two neighbours, two steps.

A relation gives, chunk by chunk, two equally long arrays of lanes that stand in it. Node ids count
up as they do in a graph, keys come from ``stream_key`` of small numbers: nothing here is random
but the generator under test.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from contracts.chance_tests import Words
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


def keys(chunk: int, construction: Construction, **change: int) -> Tensor:
    """256 keys [2, 256, 1] of even seeds, steps, layers and samples, moved by the given change."""
    names = []
    for number in range(256):
        name = {"seed": 2 * chunk, "step": 2 * number, "layer": 4, "sample": number % 8 * 2}
        for word, shift in change.items():
            name[word] += shift
        names.append(construction.stream_key(**name))
    return torch.stack(names, dim=1)[:, :, None]
