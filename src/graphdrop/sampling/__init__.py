"""Connection sampling: rates say how likely, samplers what together, estimators the gradient."""

from graphdrop.sampling.edges import (
    EDGE_FEATURES,
    EdgeFit,
    EdgePrior,
    EdgeTest,
    RankedEdges,
    describe_edges,
    fit_edge_prior,
)
from graphdrop.sampling.estimators import ARM, REINFORCE, Concrete, DisARM, Estimator, Run
from graphdrop.sampling.rates import (
    AmortizedRate,
    BetaBernoulliRate,
    EdgeRate,
    FixedRate,
    LearnedRate,
    Rate,
)
from graphdrop.sampling.samplers import (
    Draw,
    DropEdge,
    DropNode,
    DropOut,
    GraphDropConnect,
    RandomWalk,
    Sampler,
)

__all__ = [
    "ARM",
    "EDGE_FEATURES",
    "REINFORCE",
    "AmortizedRate",
    "BetaBernoulliRate",
    "Concrete",
    "DisARM",
    "Draw",
    "DropEdge",
    "DropNode",
    "DropOut",
    "EdgeFit",
    "EdgePrior",
    "EdgeRate",
    "EdgeTest",
    "Estimator",
    "FixedRate",
    "GraphDropConnect",
    "LearnedRate",
    "RandomWalk",
    "RankedEdges",
    "Rate",
    "Run",
    "Sampler",
    "describe_edges",
    "fit_edge_prior",
]
