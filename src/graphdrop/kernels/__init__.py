"""Aggregation over edges with random masks that are computed on the fly, not stored."""

from graphdrop.kernels.aggregate import aggregate
from graphdrop.kernels.buffers import in_huge_pages, release_memory

__all__ = [
    "aggregate",
    "in_huge_pages",
    "release_memory",
]
