"""Out-of-distribution variants of a dataset: test nodes with other features.

Each function takes a PyG `Data` and its split (`split`, or the masks stored in the data) and
returns an `OutOfDistribution`. The graph stays whole and the given data is not changed.
"""

from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.data.ood import OutOfDistribution, read_split, replace_tensors
from graphdrop.data.splits import Split


def feature_noise(
    data: Data,
    fraction: float = 0.5,
    kind: Literal["bernoulli", "gaussian"] = "bernoulli",
    seed: int = 0,
    split: Split | None = None,
) -> OutOfDistribution:
    """Replace the features of a random `fraction` of the test nodes by noise.

    - `bernoulli`: each entry is non-zero with the density of `x`, and then has the mean of its
      non-zero entries (1 for binary features).
    - `gaussian`: each entry is normal with the mean and standard deviation of all entries of `x`.

    The noise matches those two numbers and nothing else, so norm and sparsity do not give it away.
    Labels and masks stay: the nodes do have a class, only their features say nothing about it.
    """
    if kind not in ("bernoulli", "gaussian"):
        raise ValueError(f"kind is {kind!r}: give 'bernoulli' or 'gaussian'")
    split = read_split(data, split)
    x, chosen, generator = _some_test_nodes(data, split, fraction, seed)
    count = len(chosen)
    if kind == "bernoulli":
        nonzero = x[x != 0]
        value = float(nonzero.double().mean()) if nonzero.numel() else 0.0
        noise = value * (generator.random((count, x.shape[1])) < nonzero.numel() / x.numel())
    else:
        deviation = float(x.std(correction=0))
        noise = generator.normal(float(x.mean()), deviation, (count, x.shape[1]))
    return _with_features(data, split, chosen, torch.from_numpy(noise).to(x))


def shifted_columns(
    data: Data,
    fraction: float = 0.5,
    seed: int = 0,
    split: Split | None = None,
) -> OutOfDistribution:
    """Shift the columns of `x` by half of their number for a random `fraction` of the test nodes.

    Every feature of such a node is then another one; its values stay as they are. Labels and masks
    stay too.

    Example:
        >>> from graphdrop import load_dataset
        >>> changed = shifted_columns(load_dataset("synthetic").data, fraction=0.1)
        >>> int(changed.ood_mask.sum())
        100
    """
    split = read_split(data, split)
    x, chosen, _ = _some_test_nodes(data, split, fraction, seed)
    return _with_features(data, split, chosen, x[chosen].roll(x.shape[1] // 2, 1))


def _some_test_nodes(
    data: Data, split: Split, fraction: float, seed: int
) -> tuple[Tensor, Tensor, np.random.Generator]:
    """Dense features, the nodes to perturb, and the generator that chose them."""
    x = data.x
    if x.layout != torch.strided or x.dim() != 2 or not x.is_floating_point():
        raise ValueError(
            f"data.x has shape {tuple(x.shape)}, type {x.dtype} and layout {x.layout}: "
            "give dense floating-point features, for instance data.x.to_dense().float()"
        )
    test_nodes = split.test.nonzero().flatten()
    count = round(fraction * test_nodes.numel()) if 0 < fraction <= 1 else 0
    if count == 0:
        raise ValueError(
            f"fraction is {fraction} of {test_nodes.numel()} test nodes: "
            "give a fraction above 0 and up to 1 that selects at least one of them"
        )
    generator = np.random.default_rng(seed)
    chosen = test_nodes[torch.from_numpy(generator.permutation(test_nodes.numel())[:count])]
    return x, chosen, generator


def _with_features(data: Data, split: Split, chosen: Tensor, rows: Tensor) -> OutOfDistribution:
    """The data with other features of the chosen nodes, which are out of distribution."""
    x = data.x.clone()
    x[chosen] = rows
    ood_mask = torch.zeros_like(split.test)
    ood_mask[chosen] = True
    classes = data.y[data.y >= 0].unique()
    return OutOfDistribution(replace_tensors(data, split, x=x), split, ood_mask, classes)
