"""A graph in which some edges are known to be wrong."""

import torch
from torch_geometric.data import Data


def town(seed: int, nodes: int = 300, planted: int = 450, signal: float = 0.5) -> Data:
    """A ring for each of three classes, and edges planted between any two nodes, both ways."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(nodes) % 3
    node = torch.arange(nodes)
    own = torch.cat([torch.stack([node, (node + step) % nodes]) for step in (3, 6, 9)], 1)
    wrong = torch.randint(nodes, (2, planted), generator=generator)
    ends = torch.cat([own, wrong], 1)
    is_planted = torch.arange(ends.shape[1]) >= own.shape[1]
    ends, is_planted = ends[:, ends[0] != ends[1]], is_planted[ends[0] != ends[1]]
    x = torch.randn(nodes, 12, generator=generator)
    x[:, :3] += 2.0 * signal * torch.eye(3)[y]
    order = torch.randperm(nodes, generator=generator)
    train, val = torch.zeros(nodes, dtype=torch.bool), torch.zeros(nodes, dtype=torch.bool)
    train[order[: nodes // 4]] = True
    val[order[nodes // 4 : nodes // 2]] = True
    return Data(
        x=x,
        edge_index=torch.cat([ends, ends.flip(0)], 1),
        y=y,
        train_mask=train,
        val_mask=val,
        planted=torch.cat([is_planted, is_planted]),
    )
