"""Splits into training, validation and test nodes.

A random split is a function of the labels and the seed alone: it is ordered by
the raw output of PCG64, whose stream numpy keeps fixed across versions and machines, and draws
nothing from the global generators of numpy or torch. A label of -1 means that a node has none; such
a node is in no mask of a random split. A split by time is a function of the times alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

DEVELOPMENT, PER_CLASS, STOPPING = 1500, 20, 500
"""Sizes of the parts of the splits of PPNP: development, training of a class, and stopping."""
DEVELOPMENT_SEED = 4143496719
PPNP_SEEDS = (
    2144199730, 794209841, 2985733717, 2282690970, 1901557222, 2009332812, 2266730407,
    635625077, 3538425002, 960893189, 497096336, 3940842554, 3594628340, 948012117,
    3305901371, 3644534211, 2297033685, 4092258879, 2590091101, 1694925034,
)  # fmt: skip
"""The seeds of the published test runs, one for every split."""


class SplitSizes(NamedTuple):
    """The number of nodes in each part of a split."""

    train: int
    val: int
    test: int


@dataclass(frozen=True, eq=False)
class Split:
    """Three disjoint boolean masks over the `n` nodes, and where they come from.

    `seed` is None for a split that was not drawn. Some nodes may be in no mask; the train mask has
    at least one.
    """

    train: Tensor
    val: Tensor
    test: Tensor
    name: str
    seed: int | None = None

    def __post_init__(self) -> None:
        parts = {"train": self.train, "val": self.val, "test": self.test}
        for part, mask in parts.items():
            if mask.dtype != torch.bool or mask.dim() != 1:
                raise ValueError(
                    f"{part} has shape {tuple(mask.shape)} and type {mask.dtype}: "
                    "give a boolean mask with one entry per node"
                )
            if mask.shape != self.train.shape:
                raise ValueError(
                    f"{part} has {mask.shape[0]} entries but train has {self.train.shape[0]}: "
                    "give all three masks one entry per node of the same graph"
                )
        for first, second in (("train", "val"), ("train", "test"), ("val", "test")):
            shared = (parts[first] & parts[second]).nonzero().flatten()
            if shared.numel():
                raise ValueError(
                    f"{first} and {second} share {shared.numel()} nodes, the first is node "
                    f"{int(shared[0])}: a node belongs to at most one part, remove it from one"
                )
        if not bool(self.train.any()):
            raise ValueError("train is empty: a split needs at least one training node")

    @property
    def num_nodes(self) -> int:
        """The number of nodes the masks cover."""
        return self.train.shape[0]

    @property
    def used(self) -> Tensor:
        """The mask of nodes that are in a part."""
        return self.train | self.val | self.test

    @property
    def sizes(self) -> SplitSizes:
        """The number of nodes in each part."""
        return SplitSizes(int(self.train.sum()), int(self.val.sum()), int(self.test.sum()))


def random_per_class(
    labels: Tensor,
    per_class: int = 20,
    val: int = 500,
    test: int = 1000,
    seed: int = 0,
) -> Split:
    """Draw `per_class` training nodes of each class, then `val` and `test` nodes from the rest.

    `labels` is an integer tensor `[n]`, -1 for a node without one.
    """
    if per_class < 1:
        raise ValueError(f"per_class is {per_class}: ask for at least 1 training node per class")
    for part, size in (("val", val), ("test", test)):
        if size < 0:
            raise ValueError(f"{part} is {size}: give a number of nodes, 0 or more")
    groups = _shuffle_classes(labels, seed)
    for label, members in enumerate(groups):
        if len(members) < per_class:
            raise ValueError(
                f"class {label} has {len(members)} usable nodes but per_class is {per_class}: "
                f"lower per_class{_from_one(label, members)}"
            )
    train_nodes = np.concatenate([members[:per_class] for members in groups])
    rest = np.concatenate([members[per_class:] for members in groups])
    if val + test > len(rest):
        raise ValueError(
            f"val={val} and test={test} ask for {val + test} nodes but {len(rest)} usable nodes "
            f"remain after {per_class} per class went to train: lower val or test"
        )
    rest = rest[np.argsort(_random_bits(seed, 2, len(rest)), kind="stable")]
    return _split_from_nodes(
        (train_nodes, rest[:val], rest[val : val + test]), labels, "random-per-class", seed
    )


def random_fractions(
    labels: Tensor,
    train: float = 0.6,
    val: float = 0.2,
    test: float = 0.2,
    seed: int = 0,
) -> Split:
    """Divide each class at random in the given fractions, each part exact to within one node.

    Every part gets a node of each class that has enough of them. A class with two nodes has one in
    train, and the other in val and test by turns; a class with one node has it in train. The
    fractions may sum to less than 1; the rest is then in no mask. `labels` are as in
    `random_per_class`.
    """
    fractions = {"train": train, "val": val, "test": test}
    for part, fraction in fractions.items():
        if not 0 <= fraction <= 1:
            raise ValueError(f"{part} is {fraction}: give a fraction between 0 and 1")
    if train == 0:
        raise ValueError("train is 0: give the training set a positive fraction")
    if sum(fractions.values()) > 1 + 1e-9:
        raise ValueError(
            f"train={train}, val={val} and test={test} sum to {sum(fractions.values()):g}: "
            "lower them to a sum of at most 1"
        )
    parts: tuple[list[NDArray[np.int64]], ...] = ([], [], [])
    pairs = 0
    for label, members in enumerate(_shuffle_classes(labels, seed)):
        # One part ends where the next begins, so that rounding never loses or repeats a node.
        ends = np.rint(len(members) * np.cumsum(list(fractions.values()))).astype(int)
        if ends[0] == 0:
            raise ValueError(
                f"class {label} has {len(members)} usable nodes, too few for a training node at "
                f"train={train}: raise train, or drop the class{_from_one(label, members)}"
            )
        if val and test and len(members) == 2:
            # classes this small go to val and test by turns, so that neither part stays empty
            ends, pairs = np.array([1, 2 - pairs % 2, 2]), pairs + 1
        elif val and test and len(members) >= 3:
            ends[0] = min(ends[0], len(members) - 2)
            ends[1] = min(max(ends[1], ends[0] + 1), len(members) - 1)
            ends[2] = max(ends[2], ends[1] + 1)
        for nodes, piece in zip(parts, np.split(members, ends)[:3], strict=True):
            nodes.append(piece)
    drawn = tuple(np.concatenate(nodes) for nodes in parts)
    return _split_from_nodes(drawn, labels, "random-fractions", seed)


def ppnp_split(labels: Tensor, edge_index: Tensor, number: int = 0) -> Split:
    """One of the twenty splits of PPNP (Gasteiger et al., 2019), which share the test nodes.

    1500 nodes of the largest component are set apart for development, always the same; all others
    are test nodes. A split draws 20 development nodes of every class to train on and 500 of the
    rest to stop on. The draws are those of numpy's legacy generator with the published seeds, whose
    stream numpy keeps fixed. Nodes outside the largest component are in no part.

    Args:
        labels: classes ``[n]``, at least 0.
        edge_index: ``[2, E]``, in either or both directions.
        number: 0 to 19.
    """
    if not 0 <= number < len(PPNP_SEEDS):
        raise ValueError(f"seed is {number}; split='ppnp' takes 0 to {len(PPNP_SEEDS) - 1}.")
    nodes, ones = len(labels), np.ones(edge_index.shape[1], dtype=np.int8)
    matrix = sparse.coo_array((ones, tuple(edge_index.numpy())), (nodes, nodes))
    _, part = sparse.csgraph.connected_components(matrix, directed=False)
    component = np.flatnonzero(part == np.bincount(part).argmax())
    if len(component) <= DEVELOPMENT:
        raise ValueError(
            f"the largest component has {len(component)} nodes; split='ppnp' takes a graph with "
            f"more than {DEVELOPMENT}. Give split='random-per-class' or 'random-fractions'."
        )
    first = np.random.RandomState(DEVELOPMENT_SEED)
    development = component[first.choice(len(component), DEVELOPMENT, replace=False)]
    draw, chosen = np.random.RandomState(PPNP_SEEDS[number]), []
    for label in range(int(labels.max()) + 1):
        members = development[labels.numpy()[development] == label]
        if len(members) < PER_CLASS:
            raise ValueError(
                f"a class has {len(members)} development nodes; split='ppnp' takes at least "
                f"{PER_CLASS} of every class. Give split='random-fractions'."
            )
        chosen.append(draw.choice(members, PER_CLASS, replace=False))
    train = np.concatenate(chosen)
    stopping = draw.choice(development[~np.isin(development, train)], STOPPING, replace=False)
    test = np.setdiff1d(component, development)
    return _split_from_nodes((train, stopping, test), labels, "ppnp", number)


def split_by_time(times: NDArray[np.float64], labelled: Tensor, name: str = "by time") -> Split:
    """Train on the oldest 60 % of the labelled nodes, validate on the next 20 %, test on the rest.

    Nodes of one time stay together, so that every node of a part is older than those of the next.

    Args:
        times: a number for each node, larger for later; labelled nodes have one.
        labelled: the nodes to divide, a boolean mask `[n]`.
        name: what the split is called.
    """
    nodes = labelled.cpu().numpy()
    distinct, count = np.unique(times[nodes], return_counts=True)
    if len(distinct) < 3:
        raise ValueError(
            f"labelled nodes have {len(distinct)} different times; a split by time takes at least "
            "3, one for each of train, val and test"
        )
    # each boundary is after the time that brings its part nearest to its share
    until = count.cumsum() / count.sum()
    first = int(np.abs(until[:-2] - 0.6).argmin())
    second = first + 1 + int(np.abs(until[first + 1 : -1] - 0.8).argmin())
    part = np.searchsorted(distinct[[first, second]], times)  # 0, 1 or 2
    train, val, test = (torch.from_numpy(nodes & (part == number)) for number in range(3))
    return Split(train, val, test, name)


def strata(y: Tensor) -> Tensor:
    """The groups `[n]` that a random split divides one by one, -1 for a node in no part.

    They are the classes. Targets that are numbers or sets of labels form a single group; a node
    whose target is not finite has none.
    """
    if y.dim() == 1 and not y.is_floating_point() and y.dtype != torch.bool:
        return y
    known = y.isfinite().reshape(len(y), -1).all(1)
    return torch.where(known, 0, -1)


def describe(split: Split, labels: Tensor, names: Sequence[str] | None = None) -> str:
    """Sentences on the sizes of a split, and on classes that are not in every part.

    Args:
        split: the split of nodes with these labels.
        labels: what `strata` returns, `[n]`.
        names: the names of the classes; by default their numbers.
    """
    train, val, test = split.sizes
    each = " of each class" if int(labels.max()) > 0 else ""
    how = {
        "random-fractions": f"drawn at random, 60 / 20 / 20 %{each}",
        "random-per-class": "drawn at random, as many training nodes of each class",
    }.get(split.name, split.name)
    says = f"Split: {train:,} train, {val:,} validation and {test:,} test nodes ({how})."
    if not each:
        return says
    parts = {"training": split.train, "validation": split.val, "test": split.test}
    classes = int(labels.max()) + 1
    counts = torch.stack([labels[mask].bincount(minlength=classes) for mask in parts.values()])
    absent = []
    for number in (counts == 0).any(0).nonzero().flatten().tolist():
        name = str(number) if names is None else names[number]
        where = [part for part, count in zip(parts, counts[:, number], strict=True) if not count]
        absent.append(f"{name} (no {' or '.join(where)} node)")
    if absent:
        rest = f" and {len(absent) - 6} more" if len(absent) > 6 else ""
        says += f" Some parts have no node of these classes: {', '.join(absent[:6])}{rest}."
    return says


def _from_one(label: int, members: NDArray[np.int64]) -> str:
    """A hint for labels that are counted from 1."""
    return "; classes count from 0: give labels - 1" if label == 0 and not len(members) else ""


def _shuffle_classes(labels: Tensor, seed: int) -> list[NDArray[np.int64]]:
    """The usable nodes of each class 0..C-1, each class in a random order."""
    if labels.dim() != 1 or labels.is_floating_point() or labels.dtype == torch.bool:
        raise ValueError(
            f"labels has shape {tuple(labels.shape)} and type {labels.dtype}: "
            "give one integer class per node, -1 for none"
        )
    values = labels.cpu().numpy()
    if values.size and values.min() < -1:
        raise ValueError(f"labels contains {values.min()}: give classes from 0, or -1 for no label")
    if seed < 0:
        raise ValueError(f"seed is {seed}: give an integer of 0 or more")
    usable = values >= 0
    if not usable.any():
        raise ValueError(
            "labels has no labelled node: a split needs at least one label of 0 or more"
        )
    order = np.argsort(_random_bits(seed, 1, len(values)), kind="stable")
    order = order[usable[order]]
    by_class = order[np.argsort(values[order], kind="stable")]
    sizes = np.bincount(values[order].astype(np.int64), minlength=int(values.max()) + 1)
    return np.split(by_class, np.cumsum(sizes)[:-1])


def _random_bits(seed: int, stream: int, size: int) -> NDArray[np.uint64]:
    # Generator.permutation may change between numpy versions, the raw stream may not.
    bits: NDArray[np.uint64] = np.random.PCG64([seed, stream]).random_raw(size)
    return bits


def _split_from_nodes(
    nodes: tuple[NDArray[np.int64], ...], labels: Tensor, name: str, seed: int
) -> Split:
    masks = torch.zeros(3, len(labels), dtype=torch.bool, device=labels.device)
    for mask, part in zip(masks, nodes, strict=True):
        mask[torch.from_numpy(part)] = True
    train, val, test = masks.unbind()
    return Split(train, val, test, name, seed)
