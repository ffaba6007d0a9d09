"""Aggregation over the edges of a graph under a mask that is drawn, not stored."""

from graphdrop.kernels.aggregate import Backend, aggregate
from graphdrop.kernels.buffers import in_huge_pages, release_memory
from graphdrop.kernels.reference import materialise

__all__ = ["Backend", "aggregate", "in_huge_pages", "materialise", "release_memory"]
