"""The exact posterior of the classes of nodes in a synthetic graph.

`class_posterior` computes it for a graph of `graphdrop.data.synthetic`, a stochastic block model.
Under that model an unordered pair u, v of nodes is an edge with probability `1 - exp(-rate)`,
`rate = propensity_u propensity_v affinity[y_u, y_v]`, and whatever else is known of a node (its
prior, its features) is a row of `evidence`: the log of `p(class) p(features | class)`. Absent edges
are observations too and are accounted for exactly, by both ways of computing the posterior:

- `by_enumeration` sums over all assignments of the unknown classes. Exact, for a dozen nodes.
- `by_gibbs` averages the conditional distributions that a Gibbs sampler visits. Unbiased in the
  limit, with a Monte Carlo error near `0.5 / sqrt(chains sweeps)` or less per probability where the
  chain mixes; for a few thousand nodes. It needs affinities above zero.
"""

from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphdrop.data.synthetic import SyntheticGraph
from graphdrop.kernels.loops import compiled

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

MOST_ASSIGNMENTS = 2**22


class BlockModel(NamedTuple):
    """A graph and the parameters that matter for the posterior of its classes.

    `evidence [n, C]`, `propensity [n]`, `affinity [C, C]`; the neighbours of node u are
    `neighbours[starts[u] : starts[u + 1]]`, every edge listed at both ends.
    """

    evidence: Array
    starts: Indices
    neighbours: Indices
    propensity: Array
    affinity: Array


def class_posterior(
    graph: SyntheticGraph,
    observed: Tensor,
    method: Literal["auto", "exact", "gibbs"] = "auto",
    *,
    sweeps: int = 500,
    burn_in: int = 100,
    chains: int = 4,
    seed: int = 0,
) -> Tensor:
    """The probability `[n, C]` of each class given features, edges and the observed labels.

    Args:
        graph: a graph that `synthetic_graph` drew.
        observed: a boolean mask `[n]` of the nodes whose label is known.
        method: `exact` enumerates, for a dozen unknown nodes; `gibbs` samples, for a few thousand;
            `auto` enumerates where it can.
        sweeps: the number of sweeps of a Gibbs sampler that are averaged.
        burn_in: the number of sweeps before them.
        chains: the number of chains.
        seed: the seed of the chains.
    """
    if observed.dtype != torch.bool or observed.shape != graph.data.y.shape:
        raise ValueError(
            f"observed has shape {tuple(observed.shape)} and type {observed.dtype}: "
            f"give a boolean mask of the {len(graph.data.y)} nodes whose label is known"
        )
    labels = torch.where(observed, graph.data.y, -1).numpy()
    # log p(words | class) = sum over present words of log(exp(rate) - 1), minus all rates.
    log_odds = graph.word_rate + torch.log(graph.word_probability)
    evidence = graph.data.x.double() @ log_odds.T
    evidence = evidence + torch.log(graph.class_prior) - graph.word_rate.sum(dim=1)
    degrees = torch.bincount(graph.data.edge_index[0], minlength=len(graph.data.y))
    model = BlockModel(
        evidence.numpy(),
        torch.cat([degrees.new_zeros(1), degrees.cumsum(0)]).numpy(),
        graph.data.edge_index[1].numpy(),
        graph.propensity.numpy(),
        graph.affinity.numpy(),
    )
    if method == "auto":
        method = "exact" if can_enumerate(model, labels) else "gibbs"
    if method == "exact":
        return torch.from_numpy(by_enumeration(model, labels))
    if method == "gibbs":
        return torch.from_numpy(
            by_gibbs(model, labels, sweeps=sweeps, burn_in=burn_in, chains=chains, seed=seed)
        )
    raise ValueError(f"method is {method!r}: give 'auto', 'exact' or 'gibbs'")


def can_enumerate(model: BlockModel, labels: Indices) -> bool:
    """Whether the unknown classes (label -1) have few enough assignments to sum over."""
    num_classes = model.evidence.shape[1]
    return bool(num_classes ** int(np.sum(labels < 0)) <= MOST_ASSIGNMENTS)


def by_enumeration(model: BlockModel, labels: Indices) -> Array:
    """The exact marginals `[n, C]` given the labels `[n]`, -1 for unknown."""
    num_classes = model.evidence.shape[1]
    unknown, known = np.flatnonzero(labels < 0), np.flatnonzero(labels >= 0)
    if not can_enumerate(model, labels):
        raise ValueError(
            f"{len(unknown)} unknown nodes with {num_classes} classes have more than "
            f"{MOST_ASSIGNMENTS} assignments: observe more labels or use Gibbs sampling"
        )
    # The log probability of every assignment: one axis per unknown node.
    joint = np.zeros((num_classes,) * len(unknown))
    for axis, node in enumerate(unknown):
        to_known = _log_pairs(model, node, known)
        alone = model.evidence[node] + to_known[np.arange(len(known)), :, labels[known]].sum(axis=0)
        joint += alone.reshape(_along(len(unknown), num_classes, axis))
        later = unknown[axis + 1 :]
        for other, table in enumerate(_log_pairs(model, node, later), start=axis + 1):
            joint += table.reshape(_along(len(unknown), num_classes, axis, other))
    joint = np.exp(joint - joint.max())
    joint /= joint.sum()
    marginals = _one_hot(labels, num_classes)
    for axis, node in enumerate(unknown):
        others = tuple(i for i in range(len(unknown)) if i != axis)
        marginals[node] = joint.sum(axis=others)
    return marginals


def by_gibbs(
    model: BlockModel,
    labels: Indices,
    *,
    sweeps: int,
    burn_in: int,
    chains: int,
    seed: int,
) -> Array:
    """Marginals `[n, C]` given the labels `[n]`, -1 for unknown, by Gibbs sampling.

    Each chain starts from classes drawn by the nodes' own evidence, drops `burn_in` sweeps and
    averages the conditionals of the next `sweeps`.
    """
    for name, value, least in (
        ("sweeps", sweeps, 1),
        ("burn_in", burn_in, 0),
        ("chains", chains, 1),
    ):
        if value < least:
            raise ValueError(f"{name} is {value}: give {least} or more")
    if model.affinity.min() <= 0:
        raise ValueError(
            "affinity has a zero, where a Gibbs sampler cannot move between classes: "
            "generate with a homophily strictly between its least and 1, or enumerate"
        )
    num_classes = model.evidence.shape[1]
    generator = np.random.default_rng(seed)
    unknown = np.flatnonzero(labels < 0)
    own = np.exp(model.evidence - model.evidence.max(axis=1, keepdims=True))[unknown]
    own = np.cumsum(own / own.sum(axis=1, keepdims=True), axis=1)
    log_odds = _edge_log_odds(model)
    total = np.zeros((len(unknown), num_classes))
    for _ in range(chains):
        state = labels.copy()
        drawn = (generator.random((len(unknown), 1)) > own).sum(axis=1)
        state[unknown] = np.minimum(drawn, num_classes - 1)
        for sweep in range(burn_in + sweeps):
            conditionals = _sweep(model, log_odds, unknown, state, generator.random(len(unknown)))
            if sweep >= burn_in:
                total += conditionals
    marginals = _one_hot(labels, num_classes)
    marginals[unknown] = total / (chains * sweeps)
    return marginals


def _sweep_python(
    model: BlockModel, log_odds: Array, unknown: Indices, state: Indices, uniforms: Array
) -> Array:
    """Redraw every unknown class of `state` once, in order; return each one's conditional."""
    num_classes = model.affinity.shape[0]
    mass = np.zeros(num_classes)
    for node in range(len(state)):
        mass[state[node]] += model.propensity[node]
    conditionals = np.empty((len(unknown), num_classes))
    for position, node in enumerate(unknown):
        propensity = model.propensity[node]
        mass[state[node]] -= propensity
        # log p(edges) = sum over edges of log(exp(rate) - 1), minus the rates of all pairs: the
        # pairs without an edge need no visit.
        conditional = conditionals[position]
        for label in range(num_classes):
            score = model.evidence[node, label]
            for other in range(num_classes):
                score -= propensity * model.affinity[label, other] * mass[other]
            for entry in range(model.starts[node], model.starts[node + 1]):
                score += log_odds[entry, label, state[model.neighbours[entry]]]
            conditional[label] = score
        conditional[:] = np.exp(conditional - conditional.max())
        conditional /= conditional.sum()
        threshold = uniforms[position]
        drawn = 0
        while drawn < num_classes - 1 and threshold > conditional[drawn]:
            threshold -= conditional[drawn]
            drawn += 1
        state[node] = drawn
        mass[drawn] += propensity
    return conditionals


_sweep = compiled(_sweep_python, parallel=False)


def _edge_log_odds(model: BlockModel) -> Array:
    """`log(exp(rate) - 1)` of each listed edge for each pair of classes, `[entries, C, C]`."""
    ends = np.repeat(np.arange(len(model.propensity)), np.diff(model.starts))
    products = model.propensity[ends] * model.propensity[model.neighbours]
    rates = products[:, None, None] * model.affinity
    # log(exp(r) - 1) = r + log(1 - exp(-r)), which does not overflow.
    return np.asarray(rates + np.log(-np.expm1(-rates)))


def _log_pairs(model: BlockModel, node: np.int64, others: Indices) -> Array:
    """The log probability `[len(others), C, C]` of the pair's edge, or of its absence."""
    neighbours = model.neighbours[model.starts[node] : model.starts[node + 1]]
    products = model.propensity[node] * model.propensity[others]
    rates = products[:, None, None] * model.affinity
    with np.errstate(divide="ignore"):  # an edge of rate zero is impossible: log 0
        present = np.log(-np.expm1(-rates))
    return np.asarray(np.where(np.isin(others, neighbours)[:, None, None], present, -rates))


def _along(dimensions: int, size: int, *axes: int) -> list[int]:
    return [size if axis in axes else 1 for axis in range(dimensions)]


def _one_hot(labels: Indices, num_classes: int) -> Array:
    return np.asarray(labels[:, None] == np.arange(num_classes), dtype=np.float64)
