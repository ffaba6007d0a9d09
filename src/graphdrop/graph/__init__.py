"""Graphs as kernels read them: `Graph`, by destination and by source, and its `Normalization`."""

from graphdrop.graph.graph import Graph
from graphdrop.graph.normalization import Normalization

__all__ = ["Graph", "Normalization"]
