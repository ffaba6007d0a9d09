"""An out-of-distribution variant of a dataset: one class is unseen in training."""

import copy
from dataclasses import dataclass

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

    The graph stays whole and the given data is not changed. Without a `split` the masks in the
    data are taken. The nodes of the class leave the train and validation masks and lose their label
    (`y = -1`: no class that the model knows is right for them); the test mask keeps those it had.
    The other labels become 0..C-2 in their old order.
    """
    split = read_split(data, split)
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
        replace_tensors(data, new_split, y=new_labels.to(labels.dtype)),
        new_split,
        ood_mask,
        classes,
    )


def read_split(data: Data, split: Split | None) -> Split:
    """The given split, or that of the masks in the data, checked."""
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


def replace_tensors(data: Data, split: Split, **tensors: Tensor) -> Data:
    """A shallow copy with the given tensors and the split's masks in place of the old ones."""
    new = copy.copy(data)
    masks = {"train_mask": split.train, "val_mask": split.val, "test_mask": split.test}
    for name, tensor in (tensors | masks).items():
        setattr(new, name, tensor)
    return new
