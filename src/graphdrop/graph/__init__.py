"""Graphs as kernels read them: `Graph`, by destination and by source, and its `Normalization`.

A `Graph` is a `CSR` whose entries are edges between nodes with ids.
"""

from graphdrop.graph.csr import CSR
from graphdrop.graph.graph import Graph
from graphdrop.graph.masks import Kind, Mask, Sharing
from graphdrop.graph.normalization import Normalization
from graphdrop.graph.window import row_window

__all__ = ["CSR", "Graph", "Kind", "Mask", "Normalization", "Sharing", "row_window"]
