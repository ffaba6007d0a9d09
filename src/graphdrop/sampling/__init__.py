"""Connection sampling: rates say how likely, samplers what together, estimators the gradient."""

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
    FixedRate,
    LearnedRate,
    Rate,
)
from graphdrop.sampling.samplers import (
    EDGE_FEATURES,
    KEEP_ALL,
    Draw,
    DropEdge,
    DropNode,
    DropOut,
    GraphDropConnect,
    RandomWalk,
    Sampler,
    UsedMask,
    describe_edges,
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
]
