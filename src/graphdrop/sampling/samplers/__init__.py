"""Samplers: which connections of a layer share one random draw, as masks without gradients."""

from graphdrop.sampling.samplers.base import Sampler
from graphdrop.sampling.samplers.draw import KEEP_ALL, Draw, UsedMask
from graphdrop.sampling.samplers.edge_features import EDGE_FEATURES, describe_edges
from graphdrop.sampling.samplers.random_walk import RandomWalk
from graphdrop.sampling.samplers.samplers import DropEdge, DropNode, DropOut, GraphDropConnect

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
