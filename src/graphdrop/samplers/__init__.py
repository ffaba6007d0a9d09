"""Samplers: which connections share a draw. They make masks and know nothing of gradients."""

from graphdrop.samplers.base import Sampler
from graphdrop.samplers.draw import Draw, Drawn
from graphdrop.samplers.samplers import DropEdge, DropNode, DropOut, GraphDropConnect

__all__ = [
    "Draw",
    "Drawn",
    "DropEdge",
    "DropNode",
    "DropOut",
    "GraphDropConnect",
    "Sampler",
]
