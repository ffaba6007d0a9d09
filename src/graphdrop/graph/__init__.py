"""Graphs as kernels read them: `Graph`, by destination and by source, and its `Normalisation`."""

from graphdrop.graph.graph import Graph
from graphdrop.graph.normalisation import Normalisation

__all__ = ["Graph", "Normalisation"]
