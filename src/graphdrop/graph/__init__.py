"""Graphs as kernels read them: `Graph`, by destination and by source, and its `Normalization`.

A `Graph` is a `CSR` whose entries are edges between nodes with ids.
"""

from graphdrop.graph.csr import CSR
from graphdrop.graph.graph import Graph
from graphdrop.graph.masks import Kind, Mask
from graphdrop.graph.normalization import Normalization

__all__ = [
    "CSR",
    "Graph",
    "Kind",
    "Mask",
    "Normalization",
]
