"""``Propagation``: weighted sums over the neighbors of every node, for one edge list."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Norm = Literal["mean", "sym"]


class Propagation:
    r"""Multiply values of nodes by a normalized adjacency matrix; gradients pass through.

    ``"mean"`` is :math:`D^{-1} A`, ``"sym"`` is :math:`D^{-1/2} A D^{-1/2}`. Self-loops of the edge
    list are dropped, and each node gets one of its own where ``self_loops`` is true. Without them
    a node that has no neighbors keeps its own value. Time and memory grow with the edges.

    Args:
        edge_index: ``[2, E]``, from source to target as in PyG.
        num_nodes: of the graph.
        norm: the normalization.
        self_loops: whether a node is its own neighbor.

    Example:
        >>> mean = Propagation(torch.tensor([[0, 1], [2, 2]]), 3)
        >>> mean(torch.tensor([[1.0], [3.0], [7.0]])).flatten().tolist()
        [1.0, 3.0, 2.0]
    """

    def __init__(
        self, edge_index: Tensor, num_nodes: int, norm: Norm = "mean", *, self_loops: bool = False
    ) -> None:
        source, target = edge_index[:, edge_index[0] != edge_index[1]]
        alone = torch.ones(num_nodes, dtype=torch.bool, device=edge_index.device)
        if not self_loops:
            alone[target] = False
        own = alone.nonzero().flatten()
        self.source, self.target = torch.cat([source, own]), torch.cat([target, own])
        degree = torch.bincount(self.target, minlength=num_nodes).double()
        if norm == "mean":
            self.weight = degree[self.target].reciprocal()
        else:
            out = torch.bincount(self.source, minlength=num_nodes).double()
            self.weight = (degree[self.target] * out[self.source]).rsqrt()

    def __call__(self, values: Tensor) -> Tensor:
        """The sums ``[n, ...]`` over the neighbors of values ``[n, ...]``."""
        weight = self.weight.to(values).view(-1, *(1,) * (values.dim() - 1))
        return torch.zeros_like(values).index_add(0, self.target, values[self.source] * weight)

    def diffuse(self, values: Tensor, restart: float, steps: int) -> Tensor:
        r"""Personalized PageRank: :math:`v \leftarrow r\,v_0 + (1 - r) P v`, so many times."""
        found = values
        for _ in range(steps):
            found = restart * values + (1.0 - restart) * self(found)
        return found
