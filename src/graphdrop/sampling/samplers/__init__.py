"""Samplers: which connections of a layer share one random draw, as masks without gradients."""

from graphdrop.sampling.samplers.base import Sampler
from graphdrop.sampling.samplers.draw import KEEP_ALL, Draw, UsedMask
from graphdrop.sampling.samplers.random_walk import RandomWalk
from graphdrop.sampling.samplers.samplers import DropEdge, DropNode, DropOut, GraphDropConnect

__all__ = [
    "KEEP_ALL",
    "Draw",
    "DropEdge",
    "DropNode",
    "DropOut",
    "GraphDropConnect",
    "RandomWalk",
    "Sampler",
    "UsedMask",
]
