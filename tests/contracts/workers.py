"""Masked sums as one short text, for comparing threads and processes bit for bit."""

import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import torch

from contracts.masked_sums import normal, passes, power_law_edges
from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, stream_key

FEATURES = 33


def digest(seed: int) -> str:
    """A hash of the bits of a value and its gradients, different for each seed."""
    graph = Graph.from_edge_index(power_law_edges(300, 4000), 320)
    logit = normal(graph.num_edges, seed=seed) if seed % 2 else torch.tensor(0.3)
    mask = Mask(Kind.CONCRETE, logit, stream_key(seed), blocks=None)
    x, gradient = normal(320, FEATURES, seed=seed), normal(320, FEATURES, seed=seed + 1)
    sums = passes(graph, x, mask, gradient, "fused")
    assert sums.logit_gradient is not None
    bits = hashlib.sha256()
    for tensor in (sums.value, sums.x_gradient, sums.logit_gradient):
        bits.update(tensor.numpy().tobytes())
    return bits.hexdigest()


def digests_of_threads(seeds: Iterable[int]) -> list[str]:
    """The digests, computed by four threads at once."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(digest, seeds))
