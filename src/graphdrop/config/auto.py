"""The recipe ``auto``: settings for a graph that nobody here has seen.

``choose`` is a pure function of a method and of ``GraphTraits``, what a graph is like. It never
sees a name, a path or a test label, and the order of the nodes does not matter. The values were
found on validation nodes; docs/trust.md says on which graphs and how.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphdrop.config.recipes import Method, Settings, merged

VERSION = 1
"""Raised when the rules below come to choose otherwise: a run's key depends on it."""

FeatureKind = Literal["words", "dense", "unscaled"]
"""Sparse and not negative, such as bags of words; dense; dense with columns of unequal scale."""


@dataclass(frozen=True)
class GraphTraits:
    """What the recipe looks at: sizes, features, and labels of training and validation nodes."""

    nodes: int
    edges: int
    """Directed entries, self-loops excluded."""
    features: int
    feature_kind: FeatureKind
    classes: int
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


LABELLED_EDGES = 50
"""Edges with two labelled ends that an estimate of homophily takes."""
HOMOPHILOUS = 0.4
"""Adjusted homophily from which neighbors are averaged without a way around them."""
