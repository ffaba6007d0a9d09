"""Samplers: which connections of a layer share one random draw, as masks without gradients."""

from graphdrop.samplers.base import Sampler
from graphdrop.samplers.draw import KEEP_ALL, Draw, UsedMask
from graphdrop.samplers.edge_features import EDGE_FEATURES, describe_edges
from graphdrop.samplers.random_walk import RandomWalk
from graphdrop.samplers.samplers import DropEdge, DropNode, DropOut, GraphDropConnect

Drawn = UsedMask
"""Deprecated alias of `UsedMask`."""

__all__ = [
    "EDGE_FEATURES",
    "KEEP_ALL",
    "Draw",
    "DropEdge",
    "DropNode",
    "DropOut",
    "GraphDropConnect",
    "RandomWalk",
    "Sampler",
    "UsedMask",
    "describe_edges",
]
