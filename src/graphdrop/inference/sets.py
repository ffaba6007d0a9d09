"""Conformal prediction sets: classes that hold the true one at a chosen rate."""

from __future__ import annotations

import hashlib
import math
import warnings
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from graphdrop.inference.origin import Origin
from graphdrop.inference.propagation import Propagation
from graphdrop.inference.shift import CalibrationShiftWarning
from graphdrop.metrics.inputs import (
    check_labels,
    check_probabilities,
    choose,
    count_at_least,
)

NEIGHBORS = 20
"""SNAPS: nodes of similar features over which scores are averaged."""
DENSE = 0.1
"""Features with a smaller share of nonzeros are compared as sparse ones."""


class SetMethod(StrEnum):
    """The score by which a class enters the set of a node."""

    LAC = "lac"
    """`1 - p_c`: the smallest sets on average."""
    APS = "aps"
    """Randomized: the probability of the classes above c and a random part of its own."""
    DAPS = "daps"
    """APS, diffused over the graph: the mean of a node's own scores and its neighbors'."""
    SNAPS = "snaps"
    """APS, diffused over the graph and over nodes of similar features, a third each."""

    @property
    def is_diffused(self) -> bool:
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
    """The classes that are in every set, since they have too few calibration nodes for a threshold
    of their own; 90 % coverage takes nine of them."""

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
    method: SetMethod | str | None,
    *,
    calibration: tuple[Tensor, Tensor] | None,
    by_class: bool,
    calibrated: bool,
    seed: int,
) -> PredictionSets:
    """Find the sets for the probabilities and classes of a prediction (``Predictive.sets``)."""
    method = (SetMethod.LAC if by_class else SetMethod.APS) if method is None else method
    kind = choose(SetMethod, method, "method")
    if not 0 < coverage < 1:
        raise ValueError(f"coverage is {coverage}; it takes a number between 0 and 1, such as 0.9")
    mean = check_probabilities(probabilities)
    generator = torch.Generator().manual_seed(seed)
    scores = score_classes(mean, kind, origin, _random_parts(origin, len(mean), seed, generator))
    approximate = False
    if calibration is not None:
        found, labels = _match_labels(*calibration)
        places = _find_rows(found, origin, len(mean))
        if places is None:
            raise ValueError(
                "calibration names nodes that were not predicted; sets take their probabilities "
                "too. Predict them as well, best all nodes."
            )
        known_scores = scores[places.to(scores.device)]
    else:
        known = origin.set_nodes
        if known is None:
            raise ValueError(
                "calibration is None and this prediction knows no calibration nodes; sets take "
                "labelled nodes that were not trained on. Pass calibration=(rows, labels)."
            )
        labels, approximate = known.labels, not (known.held_out and origin.same_graph)
        if not origin.same_graph:
            warnings.warn(
                "the calibration nodes of this model belong to another graph, and the coverage of "
                "its sets may not transfer: pass calibration=(rows, labels) of this graph",
                CalibrationShiftWarning,
                stacklevel=3,
            )
        places = _find_rows(known.nodes, origin, len(mean)) if origin.same_graph else None
        if places is not None:
            known_scores = scores[places.to(scores.device)]
        elif kind.is_diffused:
            raise ValueError(
                f"method is {kind.value!r} and the calibration nodes are not among the nodes "
                "predicted; it takes both in one graph. Predict all nodes of the training "
                'graph, pass calibration=(rows, labels), or use "aps".'
            )
        else:  # by the probabilities that the model carries
            approximate |= known.calibrated != calibrated
            stored = check_probabilities(known.probabilities)
            random = torch.rand(len(stored), generator=generator, dtype=torch.float64)
            known_scores = conformal_scores(stored, kind, random)
    labels = check_labels(labels, *known_scores.shape).to(known_scores.device)
    true_class = known_scores.gather(1, labels[:, None]).squeeze(1)
    limits = find_thresholds(true_class, labels, coverage, mean.shape[1], by_class=by_class)
    members = fill_empty(scores <= limits.to(scores), predicted)
    always = tuple(limits.isinf().nonzero().flatten().tolist()) if by_class else ()
    return PredictionSets(members, coverage, kind.value, approximate, by_class, always)


def fill_empty(members: Tensor, predicted: Tensor) -> Tensor:
    """The sets ``[rows, classes]``, where the predicted class stands in for an empty one."""
    alone = torch.nn.functional.one_hot(predicted.to(members.device), members.shape[1]).bool()
    return members | (alone & ~members.any(1, keepdim=True))


def score_classes(
    mean: Tensor,
    kind: SetMethod,
    origin: Origin,
    random: Tensor,
    alike: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """The score of every class, ``[rows, classes]``.

    Args:
        mean: probabilities ``[rows, classes]``.
        kind: the score.
        origin: the graph, for scores that are diffused.
        random: the random part of APS, ``[rows]`` in [0, 1).
        alike: what ``feature_neighbors`` returned, where it is known already.
    """
    own = conformal_scores(mean, kind, random)
    if not kind.is_diffused:
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
    near, similarity = feature_neighbors(origin.x, NEIGHBORS) if alike is None else alike
    total, weight = torch.zeros_like(own), similarity.sum(1, keepdim=True)
    for i in range(near.shape[1]):  # one neighbor at a time: no [n, k, classes]
        total += similarity[:, i, None] * own[near[:, i]]
    similar = torch.where(weight > 0, total / weight.clamp_min(1e-300), own)
    return (own + around + similar) / 3


def conformal_scores(mean: Tensor, kind: SetMethod, random: Tensor | None = None) -> Tensor:
    """The nonconformity score of every class before any diffusion, ``[n, classes]``.

    Args:
        mean: probabilities ``[n, classes]``.
        kind: LAC, or one of those that begin with APS.
        random: for APS, the part of a class's own probability that counts, ``[n]`` in [0, 1); the
            whole of it by default.
    """
    if kind is SetMethod.LAC:
        return 1 - mean
    falling, order = mean.sort(dim=-1, descending=True, stable=True)
    own: Tensor | float = 1.0 if random is None else random[:, None].to(mean)
    ranked = falling.cumsum(-1) - falling * (1 - own)
    return torch.empty_like(mean).scatter_(-1, order, ranked)


def feature_neighbors(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` other nodes of highest cosine similarity of features, and that similarity.

    They are found in chunks: there is no matrix of nodes by nodes.

    Args:
        x: features ``[n, features]``, dense or sparse.
        k: at most n - 1 are returned.

    Returns:
        Node numbers ``[n, k]`` and similarities ``[n, k]``, at least 0.

    Example:
        >>> nodes, _ = feature_neighbors(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), 1)
        >>> nodes.flatten().tolist()
        [1, 0, 1]
    """
    from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415 - takes a second

    k = max(0, min(k, len(x) - 1))
    if k == 0:
        return torch.empty(len(x), 0, dtype=torch.long), torch.empty(len(x), 0).double()
    x = x.detach()
    if x.layout is torch.strided and torch.count_nonzero(x) >= DENSE * x.numel():
        values: Any = x.double().numpy(force=True)
    else:
        entries = x.to_sparse_coo().coalesce().cpu()  # type: ignore[no-untyped-call]
        numbers, place = entries.values().double().numpy(), tuple(entries.indices().numpy())
        values = sparse.csr_array((numbers, place), shape=tuple(x.shape))
    search = NearestNeighbors(n_neighbors=k, metric="cosine", algorithm="brute").fit(values)
    distance, nodes = map(torch.from_numpy, search.kneighbors())
    return nodes.to(x.device), (1.0 - distance).clamp_min(0.0).to(x.device)


def conformal_threshold(true_class: Tensor, coverage: float) -> float:
    """The k-th smallest score of the true classes, ``k = ceil((n + 1) * coverage)``, or infinity.

    The n + 1 is the correction for a finite set: with k > n no threshold is large enough.
    """
    examples = true_class.numel()
    rank = count_at_least(coverage, examples + 1)
    return float(true_class.sort().values[rank - 1]) if rank <= examples else math.inf


def find_thresholds(
    true_class: Tensor, labels: Tensor, coverage: float, classes: int, *, by_class: bool
) -> Tensor:
    """The largest score in a set, of every class: ``[classes]``."""
    if not by_class:
        threshold = conformal_threshold(true_class, coverage)
        return torch.full((classes,), threshold, dtype=torch.float64)
    own = [true_class[labels == label] for label in range(classes)]
    found = [conformal_threshold(scores, coverage) for scores in own]
    return torch.tensor(found, dtype=torch.float64)


def _random_parts(origin: Origin, predicted: int, seed: int, generator: torch.Generator) -> Tensor:
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


def _match_labels(rows: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The given calibration nodes by number, with one label for each."""
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
    return rows, labels


def _find_rows(nodes: Tensor, origin: Origin, predicted: int) -> Tensor | None:
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
