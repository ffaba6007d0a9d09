"""A peer the obvious way: a dense n-by-n mask for every block, dense products."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn


class DenseDropConnect(nn.Module):
    """A GCN with Graph DropConnect whose masks are n-by-n matrices, relaxed or hard."""

    def __init__(
        self, adjacency: Tensor, sizes: list[int], blocks: int, temperature: float | None
    ) -> None:
        super().__init__()
        self.adjacency, self.temperature = adjacency, temperature
        self.weights = nn.ParameterList(
            nn.Parameter(nn.init.xavier_uniform_(torch.empty(a, b)))
            for a, b in itertools.pairwise(sizes)
        )
        self.blocks = [1] + [blocks] * (len(self.weights) - 1)
        self.logits = nn.Parameter(torch.zeros(len(self.weights)))

    def mask(self, logit: Tensor) -> Tensor:
        uniform = torch.rand_like(self.adjacency)
        if self.temperature is None:
            return (uniform < logit.sigmoid()).to(uniform)
        return torch.sigmoid((logit + torch.logit(uniform, 1e-7)) / self.temperature)

    def forward(self, x: Tensor) -> Tensor:
        for layer, weight in enumerate(self.weights):
            parts = zip(
                x.chunk(self.blocks[layer], 1), weight.chunk(self.blocks[layer], 0), strict=True
            )
            # the narrower product first
            out = sum(
                (self.adjacency * self.mask(self.logits[layer])) @ (part @ block)
                for part, block in parts
            )
            x = torch.relu(out) if layer + 1 < len(self.weights) else out
        return x
