"""Graphs at the edge of what a graph is; each trains, or is refused by name."""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.data import Data

NODES, CLASSES = 24, 3


def ring(nodes: int = NODES) -> Tensor:
    one = torch.arange(nodes)
    return torch.stack([torch.cat([one, one.roll(1)]), torch.cat([one.roll(1), one])])


def graph(**changes: object) -> Data:
    """A ring whose classes alternate, with a split; `changes` replace its parts."""
    y = torch.arange(NODES) % CLASSES
    x = torch.nn.functional.one_hot(y, CLASSES) + 0.1 * torch.randn(
        NODES, CLASSES, generator=torch.Generator().manual_seed(0)
    )
    part = torch.arange(NODES) // CLASSES % 4
    data = Data(x=x, edge_index=ring(), y=y, num_classes=CLASSES)
    data.train_mask, data.val_mask, data.test_mask = part < 2, part == 2, part == 3
    for name, value in changes.items():
        data[name] = value
    return data


def star(leaves: int) -> Data:
    """A node with so many neighbours, which have no others."""
    nodes = leaves + 1
    spokes = torch.arange(1, nodes)
    hub = torch.zeros_like(spokes)
    edges = torch.stack([torch.cat([hub, spokes]), torch.cat([spokes, hub])])
    y = torch.arange(nodes) % 2
    part = torch.arange(nodes) % 4
    data = Data(x=torch.stack([y.float(), torch.ones(nodes)], 1), edge_index=edges, y=y)
    data.train_mask, data.val_mask, data.test_mask = part < 2, part == 2, part == 3
    return data


def _directed() -> Tensor:
    return ring()[:, :NODES]


def _isolated() -> Tensor:
    """Half of the nodes have no edge."""
    edges = ring()
    return edges[:, (edges < NODES // 2).all(0)]


def _two_parts() -> Tensor:
    return torch.cat([ring(NODES // 2), ring(NODES // 2) + NODES // 2], 1)


def _without(name: str, label: int) -> Data:
    """No node of this class is in this part of the split."""
    data = graph()
    data[f"{name}_mask"] = data[f"{name}_mask"] & (data.y != label)
    return data


def _quietly(convert: Callable[[], Tensor]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CS[RC] tensor support", UserWarning)
        return convert()


FEATURES = graph().x
ODD: dict[str, Callable[[], Data]] = {
    "no edges": lambda: graph(edge_index=torch.empty(2, 0, dtype=torch.long)),
    "half of the nodes isolated": lambda: graph(edge_index=_isolated()),
    "every edge three times": lambda: graph(edge_index=ring().repeat(1, 3)),
    "reversed and shuffled": lambda: graph(edge_index=ring().flip(0).flip(1)),
    "directed": lambda: graph(edge_index=_directed()),
    "self-loops only": lambda: graph(edge_index=torch.arange(NODES).repeat(2, 1)),
    "two parts": lambda: graph(edge_index=_two_parts()),
    "a star": lambda: star(300),
    "a class absent from training": lambda: _without("train", 2),
    "a class absent from validation": lambda: _without("val", 0),
    "a class absent from the test nodes": lambda: _without("test", 1),
    "zero features": lambda: graph(x=torch.zeros(NODES, 4)),
    "constant features": lambda: graph(x=torch.full((NODES, 4), 3.0)),
    "a single feature": lambda: graph(x=torch.arange(NODES).float()[:, None]),
    "small and large features": lambda: graph(x=FEATURES * torch.tensor([1e-30, 1.0, 1e4])),
    "float16": lambda: graph(x=FEATURES.half()),
    "bfloat16": lambda: graph(x=FEATURES.bfloat16()),
    "float64": lambda: graph(x=FEATURES.double()),
    "COO features": lambda: graph(x=FEATURES.to_sparse_coo()),
    "CSR features": lambda: graph(x=_quietly(FEATURES.to_sparse_csr)),
    "CSC features": lambda: graph(x=_quietly(FEATURES.to_sparse_csc)),
    "int32 edges": lambda: graph(edge_index=ring().int()),
    "uint8 labels": lambda: graph(y=(torch.arange(NODES) % CLASSES).to(torch.uint8)),
    "features in Fortran order": lambda: graph(x=FEATURES.T.contiguous().T),
}
