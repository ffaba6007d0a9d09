"""Samplers: which connections of a layer share one random draw, as masks without gradients."""

from graphdrop.samplers.base import Sampler
from graphdrop.samplers.draw import KEEP_ALL, Draw, Drawn
from graphdrop.samplers.edge_features import EDGE_FEATURES, describe_edges
from graphdrop.samplers.random_walk import RandomWalk
from graphdrop.samplers.samplers import DropEdge, DropNode, DropOut, GraphDropConnect

__all__ = [
    "EDGE_FEATURES",
    "KEEP_ALL",
    "Draw",
    "Drawn",
    "DropEdge",
    "DropNode",
    "DropOut",
    "GraphDropConnect",
    "RandomWalk",
    "Sampler",
    "describe_edges",
]
