"""What is known of edges, and the keep probabilities that follow from it."""

from graphdrop.sampling.edges.features import EDGE_FEATURES, describe_edges
from graphdrop.sampling.edges.prior import EdgeFit, EdgePrior, EdgeTest, fit_edge_prior
from graphdrop.sampling.edges.ranking import RankedEdges

__all__ = [
    "EDGE_FEATURES",
    "EdgeFit",
    "EdgePrior",
    "EdgeTest",
    "RankedEdges",
    "describe_edges",
    "fit_edge_prior",
]
