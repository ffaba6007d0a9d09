"""Aggregation over edges with random masks that are computed on the fly, not stored."""

from graphdrop.kernels.aggregate import Backend, aggregate
from graphdrop.kernels.buffers import in_huge_pages, release_memory
from graphdrop.kernels.reference import materialize
from graphdrop.kernels.samples import aggregate_samples
from graphdrop.kernels.stacked import aggregate_stacked

__all__ = [
    "Backend",
    "aggregate",
    "aggregate_samples",
    "aggregate_stacked",
    "in_huge_pages",
    "materialize",
    "release_memory",
]
