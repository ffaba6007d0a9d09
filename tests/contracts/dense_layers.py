"""One layer as dense matrices in float64: what the paper writes, with its masks spelled out.

A connection is an edge from a source to a destination, self-loops included; they are listed in
the order of a `Graph`, by (destination, source), parallel edges in the order they were given in.
"""

from collections import Counter
from typing import NamedTuple

import torch
from torch import Tensor

from contracts.edge_lists import EdgeList
from graphdrop.graph import masks as draws

TOWN = EdgeList(
    6,
    [(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (2, 3), (2, 3), (0, 3), (4, 4), (4, 2)],
    [1.0, 0.5, 2.0, 2.0, 1.5, 1.0, 0.25, 3.0, 0.75, 1.25],
)
"""Both directions, one-way edges, two parallels, a self-loop that is given, an isolated node."""


class Connection(NamedTuple):
    """An edge, told apart from its parallels by its rank among them."""

    destination: int
    source: int
    rank: int
    weight: float

    @property
    def is_loop(self) -> bool:
        return self.destination == self.source


def connections(edges: EdgeList) -> list[Connection]:
    """All edges, with a self-loop of weight 1 for every node that has none."""
    listed = [
        (destination, source, weight)
        for (source, destination), weight in zip(edges.edges, edges.weights, strict=True)
    ]
    have = {destination for destination, source, _ in listed if destination == source}
    listed += [(node, node, 1.0) for node in range(edges.num_nodes) if node not in have]
    rank: Counter[tuple[int, int]] = Counter()
    result = []
    for destination, source, weight in sorted(listed, key=lambda edge: edge[:2]):
        result.append(Connection(destination, source, rank[destination, source], weight))
        rank[destination, source] += 1
    return result


def masked_matrices(
    edges: EdgeList, norm: str, mask: Tensor | None = None, *, before: bool = False
) -> Tensor:
    """`N(A) * Z`, or `N(A * Z)` where masks come `before`, as `[..., n, n]`.

    The mask is `[connections, ...]`; without one this is `N(A)` itself, `[n, n]`. Masks before the
    normalization leave the identity alone.
    """
    listed = connections(edges)
    loop = torch.tensor([connection.is_loop for connection in listed])
    if mask is None:
        mask = torch.ones(len(listed))
    mask = mask.double()
    if before:
        mask = torch.where(loop.view(-1, *[1] * (mask.dim() - 1)), 1.0, mask)

    def matrices(mask: Tensor, counted: Tensor) -> Tensor:
        total = torch.zeros(edges.num_nodes, edges.num_nodes, *mask.shape[1:], dtype=torch.float64)
        for number, (destination, source, _, weight) in enumerate(listed):
            if bool(counted[number]):
                place = torch.zeros(total.shape[:2], dtype=torch.float64)
                place[destination, source] = weight
                total = total + place.view(*place.shape, *[1] * (mask.dim() - 1)) * mask[number]
        return total.movedim((0, 1), (-2, -1))

    def power(total: Tensor, exponent: float) -> Tensor:
        empty = total == 0.0
        return torch.where(empty, 0.0, torch.where(empty, 1.0, total) ** exponent)

    counted = ~loop if norm == "paper" else torch.ones_like(loop)
    masked = matrices(mask, counted)
    degree = (masked if before else matrices(torch.ones_like(mask), counted)).sum(-1)
    if norm == "row":
        return power(degree, -1.0)[..., :, None] * masked
    scale = power(degree, -0.5)
    normalized = scale[..., :, None] * masked * scale[..., None, :]
    return normalized + matrices(mask, loop) if norm == "paper" else normalized


def dense_layer(matrices: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """The paper's sum over input features, with a matrix for each pair (i, j): `[i, j, n, n]`."""
    return torch.einsum("ijvu,ui,ij->vj", matrices, x.double(), weight.double())


def hard_draw(
    key: Tensor, keep: float, destination: int, source: int, rank: int = 0, draw: int = 0
) -> float:
    """1 where a draw keeps what it belongs to, straight from the generator's bits."""
    ids = (torch.tensor(number) for number in (destination, source, rank))
    bits = draws.draw_bits(draws.edge_hash(key, *ids), torch.tensor(draw))
    uniform = (int(bits) + 0.5) / 2**16
    return float(uniform > 1.0 - keep)
