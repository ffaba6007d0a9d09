"""Citation-like graphs from a model whose likelihood is known, at any size and with no files.

Degree-corrected stochastic blocks with bag-of-words features:

    class       y_u ~ Categorical(class_prior), independently
    edge u - v  present with probability 1 - exp(-propensity_u propensity_v affinity[y_u, y_v])
    word f      present at node u with probability 1 - exp(-word_rate[y_u, f])

all independent given the classes, for unordered pairs of different nodes. The form
`1 - exp(-rate)` is what makes it fast and exact at once: Poisson numbers of parallel edges (of
repeated words) are drawn in bulk, in time linear in what is drawn, and repeats are then collapsed;
the collapsed graph has exactly this likelihood. `average_degree`, `homophily` and `words_per_node`
are met in expectation *after* collapsing. Labels, propensities, edges, topics and words come from
separate streams of the seed: the graph does not change with the feature parameters.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

CORA_CLASS_SIZES = (818, 426, 418, 351, 298, 217, 180)
INTEGERS = (int, np.integer)
LARGEST_DENSE_FEATURES = 2**28  # entries; one GiB


@dataclass(frozen=True, eq=False)
class SyntheticGraph:
    """A drawn graph and the parameters that generated it.

    `data` is a PyG `Data` with binary `x [n, f]` (sparse CSR where dense would be too large),
    `edge_index` sorted, symmetric, without duplicates and self-loops, and `y [n]`. Parameters, in
    double precision: `class_prior [C]`, `affinity [C, C]`, `propensity [n]` (mean 1),
    `word_rate [C, f]`.
    """

    data: Data
    class_prior: Tensor
    affinity: Tensor
    propensity: Tensor
    word_rate: Tensor
    seed: int

    @property
    def word_probability(self) -> Tensor:
        """The probability `[C, f]` that a node of a class has a word."""
        return -torch.expm1(-self.word_rate)


def synthetic_graph(
    num_nodes: int = 2708,
    num_classes: int = 7,
    *,
    average_degree: float = 3.9,
    homophily: float = 0.81,
    num_features: int = 1433,
    words_per_node: float = 18.2,
    feature_signal: float = 0.3,
    degree_exponent: float = 3.2,
    balanced: bool = False,
    sparse: bool | None = None,
    seed: int = 0,
) -> SyntheticGraph:
    """Draw a graph; the defaults have the shape of Cora.

    - `average_degree`: neighbours per node, in expectation
    - `homophily`: the fraction of edges inside a class, in expectation
    - `feature_signal`: how much of a node's words comes from the topic of its class; at 0 the words
      say nothing about it
    - `degree_exponent`: the power law of the degrees' tail; smaller is heavier, infinity is none
    - `balanced`: equal class probabilities instead of Cora's unequal ones
    - `sparse`: store `x` as sparse CSR; None decides by size

    A class is drawn per node, so class sizes vary and a class can be empty in a tiny graph.
    """
    _check_arguments(locals())
    streams = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(5)]
    prior = _class_prior(num_classes, balanced)
    labels = streams[0].choice(num_classes, num_nodes, p=prior)
    propensity = _propensities(streams[1], num_nodes, degree_exponent)
    affinity = _affinity(prior, propensity, average_degree, homophily)
    edge_index = _edges(streams[2], labels, propensity, affinity)
    word_rate = _word_rates(streams[3], num_classes, num_features, words_per_node, feature_signal)
    words = _words(streams[4], labels, word_rate)
    if sparse is None:
        sparse = num_nodes * num_features > LARGEST_DENSE_FEATURES
    data = Data(
        x=_feature_matrix(words, (num_nodes, num_features), sparse),
        edge_index=edge_index,
        y=torch.from_numpy(labels),
    )
    return SyntheticGraph(
        data,
        class_prior=torch.from_numpy(prior),
        affinity=torch.from_numpy(affinity),
        propensity=torch.from_numpy(propensity),
        word_rate=torch.from_numpy(word_rate),
        seed=seed,
    )


def _check_arguments(given: Mapping[str, Any]) -> None:
    takes: dict[str, tuple[Callable[[Any], Any], str]] = {
        "num_nodes": (lambda v: isinstance(v, INTEGERS) and v >= 2, "2 or more nodes"),
        "num_classes": (lambda v: isinstance(v, INTEGERS) and v >= 2, "2 or more classes"),
        "average_degree": (lambda v: 0 < v < np.inf, "a positive number"),
        "homophily": (lambda v: 0 <= v <= 1, "a fraction between 0 and 1"),
        "num_features": (lambda v: isinstance(v, INTEGERS) and v >= 2, "2 or more features"),
        "words_per_node": (
            lambda v: 0 < v <= given["num_features"] / 2,
            f"a positive number up to half of num_features={given['num_features']}",
        ),
        "feature_signal": (lambda v: 0 <= v <= 1, "a fraction between 0 and 1"),
        "degree_exponent": (lambda v: v > 2, "an exponent above 2, where the mean exists"),
        "seed": (lambda v: isinstance(v, INTEGERS) and v >= 0, "an integer of 0 or more"),
    }
    for name, (accepts, wanted) in takes.items():
        if not accepts(given[name]):
            raise ValueError(f"{name} is {given[name]}: give {wanted}")


def _class_prior(num_classes: int, balanced: bool) -> Array:
    if balanced:
        return np.full(num_classes, 1 / num_classes)
    at = np.linspace(0, len(CORA_CLASS_SIZES) - 1, num_classes)
    sizes = np.interp(at, np.arange(len(CORA_CLASS_SIZES)), CORA_CLASS_SIZES)
    return np.asarray(sizes / sizes.sum())


def _propensities(generator: np.random.Generator, num_nodes: int, exponent: float) -> Array:
    # Pareto by inversion; its density falls as the power -exponent.
    raw = (1 - generator.random(num_nodes)) ** (-1 / (exponent - 1))
    return np.asarray(raw / raw.mean())


def _affinity(prior: Array, propensity: Array, average_degree: float, homophily: float) -> Array:
    """Rates between classes that meet degree and homophily, with equal degrees in all classes."""
    # One rate between different classes and, for class a, rows that sum to 1 under the prior.
    between = (1 - homophily) / (1 - np.sum(prior**2))
    within = between + (1 - between) / prior
    lowest = 1 - (1 - np.sum(prior**2)) / (1 - prior.min())
    if within.min() < -1e-12:
        raise ValueError(
            f"homophily is {homophily}: with these class sizes all classes can have the same "
            f"degree only from {lowest:.3f} up, raise it or set balanced=True"
        )
    within = np.maximum(within, 0)
    products, pairs = _pairs_by_propensity(propensity)
    edges = len(propensity) * average_degree / 2

    def scale(kind: str, share: float, rates: Array, probability: Array) -> float:
        return _scale_to_expect(
            share * edges,
            np.multiply.outer(rates, products).ravel(),
            np.multiply.outer(probability, pairs).ravel(),
            f"average_degree is {average_degree} and homophily is {homophily}, too many edges "
            f"between nodes of {kind} for num_nodes={len(propensity)}: lower average_degree or "
            "raise num_nodes",
        )

    mixed = np.array([1 - np.sum(prior**2)])
    affinity = np.full(
        (len(prior), len(prior)), scale("different classes", 1 - homophily, np.ones(1), mixed)
    )
    np.fill_diagonal(affinity, within * scale("the same class", homophily, within, prior**2))
    return affinity


def _pairs_by_propensity(propensity: Array) -> tuple[Array, Array]:
    """Products of two nodes' propensities and, for each, the number of unordered pairs with it.

    Nodes are grouped in geometric bins, so narrow that their means stand for them.
    """
    logs = np.log(propensity)
    bins = np.floor((logs - logs.min()) / (np.ptp(logs) + 1e-12) * 63).astype(np.int64)
    size = np.bincount(bins)
    mean = np.bincount(bins, propensity)[size > 0] / size[size > 0]
    size = size[size > 0]
    return np.outer(mean, mean), (np.outer(size, size) - np.diag(size)) / 2


def _scale_to_expect(target: float, rates: Array, weights: Array, too_much: str) -> float:
    """The scale s at which `sum weights (1 - exp(-s rates))` is the target."""
    if target > 0.9 * weights[rates > 0].sum():
        raise ValueError(too_much)
    if target == 0:
        return 0.0
    scale = 0.0
    # Newton on a concave, rising function, started at the left of its root: it never overshoots.
    for _ in range(200):
        kept = np.exp(-scale * rates)
        step = (target - weights @ (1 - kept)) / (weights @ (rates * kept))
        scale += step
        if abs(step) <= 1e-12 * scale:
            break
    return float(scale)


def _draw_pairs(
    generator: np.random.Generator,
    rate: float,
    left: tuple[Indices, Array],
    right: tuple[Indices, Array],
) -> tuple[Indices, Indices]:
    """A Poisson number of pairs, each end drawn with probability proportional to its weight.

    The pair (i, j) then occurs Poisson(rate weight_i weight_j) times, independently of all others.
    """
    count = generator.poisson(rate * left[1].sum() * right[1].sum())
    ends = []
    for items, weights in (left, right):
        counts = generator.multinomial(count, weights / weights.sum())
        ends.append(np.repeat(items, counts))
    # Sorted draws on both sides become independent draws when one side is shuffled.
    generator.shuffle(ends[1])
    return ends[0], ends[1]


def _edges(
    generator: np.random.Generator, labels: Indices, propensity: Array, affinity: Array
) -> Tensor:
    num_nodes = len(labels)
    everyone = (np.arange(num_nodes), propensity)
    # Two ordered ends make one unordered pair: hence half the rate.
    source, target = _draw_pairs(generator, affinity[0, 1] / 2, everyone, everyone)
    different = labels[source] != labels[target]
    drawn = [(source[different], target[different])]
    for label in range(len(affinity)):
        members = np.flatnonzero(labels == label)
        if len(members) < 2:
            continue
        nodes = (members, propensity[members])
        source, target = _draw_pairs(generator, affinity[label, label] / 2, nodes, nodes)
        different = source != target
        drawn.append((source[different], target[different]))
    first = np.concatenate([source for source, _ in drawn])
    second = np.concatenate([target for _, target in drawn])
    del drawn, source, target, different
    keys = np.concatenate([first * num_nodes + second, second * num_nodes + first])
    del first, second
    return torch.from_numpy(np.stack(_distinct(keys, num_nodes)))


def _distinct(keys: Indices, columns: int) -> tuple[Indices, Indices]:
    """Row and column of each different key `row * columns + column`, in order."""
    keys.sort()
    new = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    row, column = np.divmod(keys[new], columns)
    return row, column


def _word_rates(
    generator: np.random.Generator,
    num_classes: int,
    num_features: int,
    words_per_node: float,
    signal: float,
) -> Array:
    """Word rates `[C, f]`: a common Zipf vocabulary, mixed with one topic per class."""
    popularity = generator.permutation(np.arange(1, num_features + 1) ** -0.8)
    # A topic prefers few words, and yet no word is impossible: posteriors stay finite.
    preference = 0.01 + generator.standard_gamma(0.2, (num_classes, num_features))
    topics = popularity * preference
    mixed = (1 - signal) * popularity / popularity.sum()
    mixed = mixed + signal * topics / topics.sum(axis=1, keepdims=True)
    ones = np.ones(num_features)
    return np.stack([_scale_to_expect(words_per_node, row, ones, "") * row for row in mixed])


def _words(
    generator: np.random.Generator, labels: Indices, word_rate: Array
) -> tuple[Indices, Indices]:
    num_features = word_rate.shape[1]
    keys = []
    for label, rates in enumerate(word_rate):
        members = np.flatnonzero(labels == label)
        if len(members):
            node, word = _draw_pairs(
                generator, 1.0, (members, np.ones(len(members))), (np.arange(num_features), rates)
            )
            keys.append(node * num_features + word)
    return _distinct(np.concatenate(keys), num_features)


def _feature_matrix(words: tuple[Indices, Indices], shape: tuple[int, int], sparse: bool) -> Tensor:
    row, column = (torch.from_numpy(index) for index in words)
    if sparse:
        starts = torch.zeros(shape[0] + 1, dtype=torch.long)
        starts[1:] = torch.bincount(row, minlength=shape[0]).cumsum(0)
        ones = torch.ones(len(column))
        with warnings.catch_warnings():  # torch announces once per process that CSR is in beta
            warnings.filterwarnings("ignore", "Sparse CSR tensor support", UserWarning)
            return torch.sparse_csr_tensor(starts, column, ones, shape, check_invariants=True)
    x = torch.zeros(shape)
    x[row, column] = 1
    return x
