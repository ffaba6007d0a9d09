"""Out-of-distribution variants of a dataset: a class unseen in training, or perturbed features.

Each function takes a PyG `Data` and its split (`split`, or the masks stored in the data) and
returns an `OutOfDistribution`. The graph stays whole and the given data is not changed.
"""

import copy
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.data.splits import Split


@dataclass(frozen=True, eq=False)
class OutOfDistribution:
    """A dataset of which some test nodes, `ood_mask [n]`, lie outside the training distribution.

    `data` holds the masks of `split`. `classes[k]` is the class in the original data that label `k`
    stands for.
    """

    data: Data
    split: Split
    ood_mask: Tensor
    classes: Tensor

    @property
    def in_distribution_mask(self) -> Tensor:
        """The other test nodes `[n]`: those on which accuracy is scored."""
        return self.split.test & ~self.ood_mask


def leave_class_out(data: Data, held_out: int, split: Split | None = None) -> OutOfDistribution:
    """Hide class `held_out` from training: its test nodes are the out-of-distribution ones.

    Its nodes leave the train and validation masks and lose their label (`y = -1`: no class that the
    model knows is right for them); the test mask keeps those it had. The other labels become
    0..C-2 in their old order.
    """
    split = _split_of(data, split)
    labels = data.y
    known = labels[labels >= 0].unique()
    if held_out not in known.tolist():
        raise ValueError(f"held_out is {held_out}: give one of the data's classes {known.tolist()}")
    held = labels == held_out
    ood_mask = split.test & held
    if not bool(ood_mask.any()):
        raise ValueError(
            f"held_out class {held_out} has no test node, so nothing would be out of distribution: "
            "hold out another class or use another split"
        )
    if not bool((split.train & ~held).any()):
        raise ValueError(
            f"held_out class {held_out} has all training nodes, none would remain: "
            "hold out another class or use another split"
        )
    classes = known[known != held_out]
    new_labels = torch.searchsorted(classes, labels)
    new_labels[held | (labels < 0)] = -1
    new_split = Split(
        split.train & ~held,
        split.val & ~held,
        split.test,
        name=f"{split.name} without class {held_out}",
        seed=split.seed,
    )
    return OutOfDistribution(
        _replaced(data, new_split, y=new_labels.to(labels.dtype)), new_split, ood_mask, classes
    )


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
    split = _split_of(data, split)
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
    split = _split_of(data, split)
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
    return OutOfDistribution(_replaced(data, split, x=x), split, ood_mask, classes)


def _split_of(data: Data, split: Split | None) -> Split:
    for name in ("x", "y"):
        if data.get(name) is None:
            raise ValueError(f"data has no {name}: give a graph with features and labels")
    if data.y.dim() != 1 or data.y.is_floating_point():
        raise ValueError(
            f"data.y has shape {tuple(data.y.shape)} and type {data.y.dtype}: "
            "give one integer class per node"
        )
    if split is None:
        masks = [data.get(f"{part}_mask") for part in ("train", "val", "test")]
        if any(mask is None for mask in masks):
            raise ValueError(
                "split is None and data has no train_mask, val_mask and test_mask: give either"
            )
        split = Split(masks[0], masks[1], masks[2], name="given")
    if split.num_nodes != data.y.shape[0]:
        raise ValueError(
            f"split covers {split.num_nodes} nodes but data has {data.y.shape[0]}: "
            "give a split of the same graph"
        )
    return split


def _replaced(data: Data, split: Split, **tensors: Tensor) -> Data:
    """A shallow copy with the given tensors and the split's masks in place of the old ones."""
    new = copy.copy(data)
    masks = {"train_mask": split.train, "val_mask": split.val, "test_mask": split.test}
    for name, tensor in (tensors | masks).items():
        setattr(new, name, tensor)
    return new
