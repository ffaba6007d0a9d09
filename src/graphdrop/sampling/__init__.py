"""Connection sampling: rates say how likely, samplers what together, estimators the gradient."""

from graphdrop.sampling.edges import (
    EDGE_FEATURES,
    EdgeFit,
    EdgePrior,
    EdgeTest,
    describe_edges,
    fit_edge_prior,
)
from graphdrop.sampling.estimators import (
    ARM,
    REINFORCE,
    Concrete,
    DisARM,
    Estimator,
    LayerDraws,
    Run,
)
from graphdrop.sampling.rates import (
    AmortizedRate,
    BetaBernoulliRate,
    EdgeRate,
    FixedRate,
    LearnedRate,
    Rate,
)
from graphdrop.sampling.samplers import (
    KEEP_ALL,
    Draw,
    DropEdge,
    DropNode,
    DropOut,
    GraphDropConnect,
    RandomWalk,
    Sampler,
    UsedMask,
)

__all__ = [
    "ARM",
    "EDGE_FEATURES",
    "KEEP_ALL",
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
    "LayerDraws",
    "LearnedRate",
    "RandomWalk",
    "Rate",
    "Run",
    "Sampler",
    "UsedMask",
    "describe_edges",
    "fit_edge_prior",
]
