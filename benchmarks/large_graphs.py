"""Large random graphs for the benchmarks of scale."""

from __future__ import annotations

import torch
from torch_geometric.data import Data


def random_graph(nodes: int, edges: int, features: int, train: int, seed: int = 0) -> Data:
    """A graph whose degrees follow a power law, with random features and 8 classes."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.rand(2, edges, generator=generator)
    edge_index = (nodes * ends ** torch.tensor([[1.0], [1.5]])).long().clamp_(max=nodes - 1)
    rename = torch.randperm(nodes, generator=generator)
    data = Data(torch.randn(nodes, features, generator=generator), rename[edge_index])
    data.y = torch.randint(8, (nodes,), generator=generator)
    order = torch.randperm(nodes, generator=generator)
    for name, part in (
        ("train_mask", order[:train]),
        ("val_mask", order[train : train + 1000]),
        ("test_mask", order[train + 1000 : train + 2000]),
    ):
        data[name] = torch.zeros(nodes, dtype=torch.bool)
        data[name][part] = True
    return data
