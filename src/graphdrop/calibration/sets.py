"""Conformal prediction sets: classes that hold the true one at a chosen rate."""

from __future__ import annotations

import hashlib
import math
import warnings
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch
from torch import Tensor

from graphdrop.calibration.conformal import ConformalScore, conformal_scores, conformal_threshold
from graphdrop.calibration.feature_neighbors import feature_neighbors
from graphdrop.inference.origin import Origin
from graphdrop.inference.propagation import Propagation
from graphdrop.inference.shift import CalibrationShiftWarning
from graphdrop.metrics.inputs import check_labels, check_probabilities, choose
from graphdrop.metrics.rare import rare_classes

NEIGHBORS = 20
"""SNAPS: nodes of similar features over which scores are averaged."""


class SetMethod(StrEnum):
    """By which score a class enters the set of a node."""

    LAC = "lac"
    """`1 - p_c`: the smallest sets on average."""
    APS = "aps"
    """Randomized: the probability of the classes above c and a random part of its own."""
    DAPS = "daps"
    """APS, diffused over the graph: the mean of a node's own scores and its neighbors'."""
    SNAPS = "snaps"
    """APS, diffused over the graph and over nodes of similar features, a third each."""

    @property
    def diffused(self) -> bool:
        """Whether the scores of a node depend on its neighbors'."""
        return self in (SetMethod.DAPS, SetMethod.SNAPS)


@dataclass(frozen=True, eq=False, repr=False)
class PredictionSets:
    """A set of classes for every node; ``Predictive.sets`` returns it.

    No set is empty: where no class passes the threshold, as APS by its random part and LAC have
    it, the predicted class stands in. This can only raise the coverage.

    Example:
        >>> members = torch.tensor([[True, False], [True, True]])
        >>> sets = PredictionSets(members, 0.9, "aps", approximate=True)
        >>> sets.size().tolist(), sets.contains(torch.tensor([1, 1])).tolist()
        ([1, 2], [False, True])
    """

    members: Tensor
    """Whether a class is in the set of a node, bool ``[nodes, classes]``."""
    coverage: float
    """How often a set should hold the true class."""
    method: str
    approximate: bool
    """Whether the nodes by which sets were calibrated had been used for something else, such as the
    selection of the network, or come from another graph: then nothing is guaranteed."""
    by_class: bool = False
    """Whether the coverage is meant for every class by itself."""
    always: tuple[int, ...] = ()
    """By class: the classes that are in every set, since they have too few calibration nodes; 90 %
    coverage takes nine of them."""

    def size(self) -> Tensor:
        """Number of classes in each set, ``[nodes]``, at least 1."""
        return self.members.sum(1)

    def contains(self, labels: Tensor) -> Tensor:
        """Whether each set holds the label of its node, bool ``[nodes]``."""
        labels = check_labels(labels, *self.members.shape)
        return self.members.gather(1, labels[:, None]).squeeze(1)

    def classes(self, node: int) -> list[int]:
        """The classes in the set of one node."""
        return self.members[node].nonzero().flatten().tolist()

    def __len__(self) -> int:
        return len(self.members)

    def __repr__(self) -> str:
        each = " of every class" if self.by_class else ""
        kind = "approximate" if self.approximate else "guaranteed for exchangeable nodes"
        return (
            f"PredictionSets({len(self)} nodes, {self.coverage:.0%} coverage{each} by "
            f"{self.method}, {kind}, mean size {float(self.size().double().mean()):.2f})"
        )


def prediction_sets(
    probabilities: Tensor,
    predicted: Tensor,
    origin: Origin,
    coverage: float,
    method: str | None = None,
    *,
    calibration: tuple[Tensor, Tensor] | None = None,
    by_class: bool | None = None,
    seed: int = 0,
    calibrated: bool = False,
) -> PredictionSets:
    """Sets for what was predicted; see ``Predictive.sets``.

    Args:
        probabilities: ``[rows, classes]``.
        predicted: the predicted class of every row, which stands in for an empty set.
        origin: where they come from.
        coverage: how often a set should hold the true class.
        method: a ``SetMethod``; by default LAC by class, whose sets are then smaller, or APS.
        calibration: nodes and their labels, in place of those in ``origin``.
        by_class: a threshold for every class; by default where a class is rare.
        seed: of the random part of APS.
        calibrated: whether the probabilities are calibrated ones.
    """
    by_class = bool(rare_classes(origin.class_counts)) if by_class is None else by_class
    if method is None:
        method = SetMethod.LAC if by_class else SetMethod.APS
    kind = choose(SetMethod, method, "method")
    if not 0 < coverage < 1:
        raise ValueError(f"coverage is {coverage}; it takes a number between 0 and 1, such as 0.9")
    mean = check_probabilities(probabilities)
    generator = torch.Generator().manual_seed(seed)
    uniform = _uniform(origin, len(mean), seed, generator)
    scores = class_scores(mean, kind, origin, uniform)
    approximate = False
    if calibration is not None:
        places, labels = _places(*calibration, origin, len(mean))
        true_class, labels = _of_labels(scores[places], labels)
    else:
        known = origin.set_nodes
        if known is None:
            raise ValueError(
                "calibration is None and this prediction knows no calibration nodes; sets take "
                "labelled nodes that were not trained on. Pass calibration=(rows, labels)."
            )
        approximate = not (known.held_out and origin.same_graph)
        if not origin.same_graph:
            warnings.warn(
                "the calibration nodes of this model belong to another graph, and the coverage of "
                "its sets may not transfer: pass calibration=(rows, labels) of this graph",
                CalibrationShiftWarning,
                stacklevel=3,
            )
        found = _found(known.nodes, origin, len(mean)) if origin.same_graph else None
        if found is not None:
            true_class, labels = _of_labels(scores[found], known.labels.to(mean.device))
        else:
            approximate |= known.calibrated != calibrated
            stored = check_probabilities(known.probabilities)
            drawn = torch.rand(len(stored), generator=generator, dtype=torch.float64)
            if kind.diffused:
                raise ValueError(
                    f"method is {kind.value!r} and the calibration nodes are not among the nodes "
                    "predicted; it takes both in one graph. Predict all nodes of the training "
                    'graph, pass calibration=(rows, labels), or use "aps".'
                )
            true_class, labels = _of_labels(_base(stored, kind, drawn), known.labels)
    limits = thresholds(true_class, labels, coverage, mean.shape[1], by_class=by_class)
    members = fill_empty(scores <= limits.to(scores), predicted)
    always = tuple(limits.isinf().nonzero().flatten().tolist()) if by_class else ()
    return PredictionSets(members, coverage, kind.value, approximate, by_class, always)


def fill_empty(members: Tensor, predicted: Tensor) -> Tensor:
    """The sets ``[rows, classes]``, where the predicted class stands in for an empty one."""
    alone = torch.nn.functional.one_hot(predicted.to(members.device), members.shape[1]).bool()
    return members | (alone & ~members.any(1, keepdim=True))


def _uniform(origin: Origin, predicted: int, seed: int, generator: torch.Generator) -> Tensor:
    """A number in [0, 1) of every row; it belongs to the node, whichever others are predicted.

    It is a hash of the id and the seed; where nodes have no ids it is drawn by their numbers.
    """
    if (ids := origin.names.ids) is not None:
        nodes = range(predicted) if origin.rows is None else origin.rows.tolist()
        texts = (f"{seed}\n{ids[node]}".encode(errors="surrogatepass") for node in nodes)
        digests = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
        bits = np.frombuffer(digests, "<u8") >> np.uint64(11)
        return torch.from_numpy(bits * 2.0**-53)
    if origin.rows is None:
        return torch.rand(predicted, generator=generator, dtype=torch.float64)
    rows = origin.rows.cpu()
    count = int(rows.max()) + 1 if origin.nodes is None else origin.nodes
    return torch.rand(count, generator=generator, dtype=torch.float64)[rows]


def _base(mean: Tensor, kind: SetMethod, uniform: Tensor) -> Tensor:
    """The score of every class before any diffusion."""
    score = ConformalScore.LAC if kind is SetMethod.LAC else ConformalScore.APS
    return conformal_scores(mean, score, uniform if kind is not SetMethod.LAC else None)


def class_scores(
    mean: Tensor,
    kind: SetMethod,
    origin: Origin,
    uniform: Tensor,
    alike: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """The score of every class, ``[rows, classes]``.

    Args:
        mean: probabilities ``[rows, classes]``.
        kind: the score.
        origin: the graph, for scores that are diffused.
        uniform: the random part of APS, ``[rows]`` in [0, 1).
        alike: what ``feature_neighbors`` returned, where it is known already.
    """
    own = _base(mean, kind, uniform)
    if not kind.diffused:
        return own
    if origin.edge_index is None or origin.rows is not None or origin.nodes != len(mean):
        raise ValueError(
            f"method is {kind.value!r} and this prediction does not cover a whole graph; it takes "
            'all nodes and their edges. Predict one Data without rows, or use "aps".'
        )
    around = Propagation(origin.edge_index, len(mean))(own)
    if kind is SetMethod.DAPS:
        return (own + around) / 2
    if origin.x is None:
        raise ValueError('method is "snaps" and data has no x; it takes features. Use "daps".')
    alike = feature_neighbors(origin.x, NEIGHBORS) if alike is None else alike
    return (own + around + _feature_mean(*alike, own)) / 3


def _feature_mean(near: Tensor, similarity: Tensor, scores: Tensor) -> Tensor:
    """Scores averaged over nodes of similar features, weighted by the similarity."""
    total = torch.zeros_like(scores)
    for place in range(near.shape[1]):  # one neighbor at a time: no [n, k, classes]
        total += similarity[:, place, None] * scores[near[:, place]]
    weight = similarity.sum(1, keepdim=True)
    return torch.where(weight > 0, total / weight.clamp_min(1e-300), scores)


def _places(rows: Tensor, labels: Tensor, origin: Origin, predicted: int) -> tuple[Tensor, Tensor]:
    """Where given calibration nodes stand among those predicted, and their labels."""
    rows = rows.to(labels.device)
    if rows.dtype == torch.bool:
        if len(labels) == len(rows):
            labels = labels[rows]
        rows = rows.nonzero().flatten()
    if len(labels) != len(rows) or not len(rows):
        raise ValueError(
            f"calibration has {len(rows)} nodes and {len(labels)} labels; it takes one label for "
            "each node and at least one node. Pass (val_mask, y), or (rows, y[rows])."
        )
    found = _found(rows, origin, predicted)
    if found is None:
        raise ValueError(
            "calibration names nodes that were not predicted; sets take their probabilities too. "
            "Predict them as well, best all nodes."
        )
    return found, labels


def _found(nodes: Tensor, origin: Origin, predicted: int) -> Tensor | None:
    """The places of nodes among the rows predicted; ``None`` unless all are there."""
    total = predicted if origin.nodes is None else origin.nodes
    if int(nodes.max()) >= total:
        return None
    if origin.rows is None:
        return nodes if total == predicted else None
    place = torch.full((total,), -1, device=origin.rows.device)
    place[origin.rows] = torch.arange(predicted, device=place.device)
    found = place[nodes.to(place.device)]
    return None if bool((found < 0).any()) else found


def _of_labels(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The scores of the true classes, and the labels, checked."""
    labels = check_labels(labels, *scores.shape).to(scores.device)
    return scores.gather(1, labels[:, None]).squeeze(1), labels


def thresholds(
    true_class: Tensor, labels: Tensor, coverage: float, classes: int, *, by_class: bool
) -> Tensor:
    """The largest score in a set, of every class: ``[classes]``."""
    if not by_class:
        threshold = conformal_threshold(true_class, coverage)
        return torch.full((classes,), threshold, dtype=torch.float64)
    own = [true_class[labels == label] for label in range(classes)]
    found = [conformal_threshold(one, coverage) if len(one) else math.inf for one in own]
    return torch.tensor(found, dtype=torch.float64)
