"""The recipe ``auto``: default settings chosen from properties of the graph.

``choose`` is a pure function of a method and of ``GraphTraits``, what a graph is like. It never
sees a name, a path or a test label, and the order of the nodes does not matter. The values were
found on validation nodes; docs/trust.md says on which graphs and how.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any, Literal

from graphdrop.config.recipes import Method, Settings, merge_settings

VERSION = 5
"""The version of the rules below; it is part of a run's key."""

FeatureKind = Literal["words", "dense", "unscaled"]
"""Sparse and not negative, such as bags of words; dense; dense with columns of unequal scale."""


@dataclass(frozen=True)
class GraphTraits:
    """The properties that the recipe reads: sizes, features, labels of non-test nodes."""

    nodes: int
    edges: int
    """Directed entries, self-loops excluded."""
    features: int
    feature_kind: FeatureKind
    classes: int
    """0 where the targets are numbers."""
    train_nodes: int
    validation_nodes: int
    majority: float
    """Share of the largest class among the training nodes."""
    homophily: float | None
    """Adjusted for the sizes of classes: 1 where edges join equal classes only, about 0 where
    classes say nothing about edges. ``None`` where too few edges have two labelled ends."""
    labelled_edges: int

    @property
    def homophilous(self) -> bool | None:
        """Whether neighbors mostly share their class; ``None`` if that is unknown."""
        return None if self.homophily is None else self.homophily >= HOMOPHILOUS

    @property
    def many_labels(self) -> bool:
        """Whether so many labels train that validation nodes should decide how neighbours count."""
        return self.train_nodes >= MANY_LABELS * self.classes


MANY_LABELS = 50
"""Training nodes per class from which on a graph has many labels."""
LABELLED_EDGES = 50
"""The number of edges between labelled nodes that an estimate of homophily needs."""
HOMOPHILOUS = 0.4
"""From this adjusted homophily on, neighbours are averaged without linear residuals."""

Way = Literal["smooth", "plain", "skip", "wide", "linear"]
"""How neighbours are used: averaged, with the consistency loss on all nodes; averaged; with linear
residual connections and normalization layers, so that a layer can do without them; or by their
means over one and two hops, which an MLP or a logistic regression reads beside own features."""

SHARED: Settings = {
    "model": {"hidden": 64, "norm": "sym", "init": "glorot", "mask": "before", "blocks": 16},
    "objective": {"l2_factor": "one", "l2_biases": False, "warmup": 0},
    "train": {"select": "calibrated-nll", "learning_rate": 0.01, "samples": 10},
    "predict": {"samples": 100, "standard_error": 0.02}
    | {"calibration": "entropy-temperature", "decision": "mean"},
}

WAYS: dict[Way, Settings] = {
    "smooth": {
        "model": {"dropout": 0.5},
        "objective": {"l2": 4e-3, "l2_layers": "first", "agree": 1.0, "sharpen": 0.5},
        "train": {"epochs": 400, "patience": 80},
    },
    "plain": {
        "model": {"dropout": 0.5},
        "objective": {"l2": 4e-3, "l2_layers": "first"},
        "train": {"epochs": 600, "patience": 100},
    },
    "skip": {
        "model": {
            "layers": 4,
            "dropout": 0.2,
            "residual": "linear",
            "norm_layer": "layer",
            "jumping": "last",
        },
        "objective": {"l2": 0.0},
        "train": {"epochs": 400, "patience": 100},
    },
    "wide": {
        "model": {
            "architecture": "propagation",
            "propagate": "hidden",
            "combine": "concat",
            "orders": 2,
            "norm": "row",
            "dropout": 0.2,
            "residual": "linear",
            "norm_layer": "layer",
        },
        "objective": {"l2": 1e-3, "l2_layers": "all"},
        "train": {"epochs": 400, "patience": 100},
    },
}

LEARNED: Settings = {
    "model": {"prior_alpha": 8.0, "temperature": 0.15},
    "objective": {"kl_weight": 1.0},
}
"""Of learned rates: masks close to hard ones, and a prior with a mean keep probability of 8/9 that
outweighs the likelihood of few labels."""
FREE: Settings = {"model": {"prior_alpha": 0.8}, "objective": {"kl_weight": "elbo"}}
"""Of learned rates where neighbors are often of another class: the likelihood of many labels
decides, and may drop nearly all of them."""
FIXED: Settings = {"model": {"drop": 0.2, "symmetric": True}}
"""Settings for fixed rates of edges, nodes and connections."""
ATTACHED: Settings = {"model": {"mask": "after"}}
"""Layers of PyG normalize their edges themselves, before a mask can act."""

FEATURES: dict[FeatureKind, Settings] = {
    "words": {"data": {"features": "unit"}},
    "dense": {"data": {"features": "stored"}},
    "unscaled": {"data": {"features": "standardize"}},
}

FEW_FEATURES = 64
"""With fewer features a node cannot do without half of them."""
LESS_DROPOUT: Settings = {"model": {"dropout": 0.2}}

DROPS_FEATURES = (Method.GCN, Method.GCN_DO)
"""Methods that sample no connections."""
FIXED_RATES = (Method.GCN_DE, Method.GCN_DO_DE, Method.GCN_NS, Method.GCN_GDC)
ARM_METHODS = (Method.GCN_BDE_ARM, Method.GCN_BBDE_ARM, Method.GCN_BBGDC_ARM)
HARD = (Method.GCN_DO, *FIXED_RATES, *ARM_METHODS)
"""Methods that are trained with hard masks, and predict with them."""
PER_EDGE = (Method.GCN_BBDE_LOCAL, Method.GCN_BBGDC_LOCAL, Method.GCN_BBGDC_AMORTISED)
PER_EDGE_SETTINGS: Settings = {"objective": {"kl_reduction": "mean"}}
"""Of a rate for every edge: a KL summed over edges would outweigh the mean likelihood."""
FITTED: Settings = {
    "model": {"edges": "fitted", "mask": "before", "symmetric": False},
    "objective": {"teach": 1.0},
    "predict": {"masks": "hard"},
}
"""Of fitted rates of edges, which act before the normalization, as they were fitted."""
FITTED_METHODS = (Method.GCN_BBGDC, Method.GCN_BBDE)
"""Methods whose rate of a layer fitted rates of its edges may replace."""
WITHOUT_DROPOUT = (Method.GCN, Method.GCN_DE, Method.GCN_NS)
"""Methods whose name says that nothing but what it names is dropped."""


BASELINES: Mapping[str, Mapping[str, int]] = {
    "classes": {"logistic regression": 0, "logistic regression, neighbours": 2},
    "gaussian": {"ridge regression": 0, "ridge regression, neighbours": 2},
}
"""The linear baselines of a kind of target: the hops over which neighbours' features are averaged,
which stand beside a node's own; 0 for its own alone."""

LINEAR: Settings = {
    "model": {
        "method": "GCN",
        "architecture": "propagation",
        "propagate": "hidden",
        "combine": "concat",
        "layers": 1,
        "norm": "row",
        "init": "glorot",
    },
    "objective": {"l2": 1.0, "l2_factor": "one", "l2_biases": False, "warmup": 0},
    "train": {
        "optimizer": "lbfgs",
        "epochs": 6,
        "patience": 2,
        "evaluate_every": 1,
        "samples": 1,
        "baselines": False,
    },
    "predict": {"masks": "off", "samples": 1, "dropout": False, "decision": "mean"},
}
"""A logistic or ridge regression: the strengths of its L2 are 1, 0.1, ... 1e-5."""


def ways(traits: GraphTraits) -> tuple[Way, ...]:
    """The ways that suit a graph; if there are several, validation nodes decide."""
    if traits.homophilous:
        return ("smooth", "skip") if traits.many_labels else ("smooth",)
    if traits.homophilous is None:
        return ("smooth", "plain", "skip")
    return ("plain", "skip")


def choose(method: Method, architecture: str, traits: GraphTraits, way: Way) -> Settings:
    """All settings that are not the user's, for a method on a graph in one way."""
    chosen = [SHARED, FEATURES[traits.feature_kind], WAYS[way]]
    if traits.features < FEW_FEATURES:
        chosen.append(LESS_DROPOUT)
    if method in FIXED_RATES:
        chosen.append(FIXED)
    elif method not in DROPS_FEATURES:
        chosen += [LEARNED, FREE] if traits.homophilous is False else [LEARNED]
    if method in WITHOUT_DROPOUT:
        chosen.append({"model": {"dropout": 0.0}})
    masks = "off" if method == Method.GCN else "hard" if method in HARD else "relaxed"
    chosen.append({"predict": {"masks": masks}})
    if architecture != "gcn" or way == "wide":
        chosen.append(ATTACHED)
    if method in PER_EDGE:
        chosen.append(PER_EDGE_SETTINGS)
    return merge_settings(*chosen)


STEPS_TO_EVALUATION = 10


def of_batches(train: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """The epochs, patience, evaluations and average of training if an epoch has so many steps.

    A full batch is one step. Mini-batches take fewer epochs with more steps in all, since each has
    a gradient of its own noise: both change by the square root of the steps of an epoch. Against
    that noise the weights of about two epochs are averaged.
    """
    return {
        "epochs": ceil(train["epochs"] / sqrt(steps)),
        "patience": ceil(train["patience"] / sqrt(steps)),
        "evaluate_every": ceil(STEPS_TO_EVALUATION / steps),
        "average": 1.0 - 0.5 / steps if steps > 1 else 0.0,
    }


DESCRIPTIONS: dict[Way, str] = {
    "smooth": "neighbors are averaged, and samples asked to agree on all nodes",
    "plain": "neighbors are averaged",
    "skip": "residual connections, layer normalization and jumping knowledge",
    "wide": "an MLP reads features beside their means over one and two hops",
    "linear": "a linear model reads features beside their means over one and two hops",
}


def explain(traits: GraphTraits, way: Way, *, tried: bool) -> str:
    """Two lines: what was chosen, and why."""
    features = {
        "words": "features look like bags of words: every row is scaled to length 1",
        "dense": "features are dense and of one scale: they are taken as stored",
        "unscaled": "columns differ in scale: they are standardized over the training nodes",
    }[traits.feature_kind]
    if traits.homophily is None:
        why = f"only {traits.labelled_edges} edges have two labelled ends, too few for homophily"
    else:
        why = f"adjusted homophily is {traits.homophily:.2f} ({traits.labelled_edges} edges)"
    uses = DESCRIPTIONS[way]
    decided = ", decided on validation nodes" if tried else ""
    return f"Recipe auto: {features}.\n{why.capitalize()}: {uses}{decided}."
