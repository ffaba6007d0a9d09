"""Layers and models with sampled connections."""

from graphdrop.nn.conv import SampledGCNConv
from graphdrop.nn.models import GCN
from graphdrop.nn.sampled import Handle, sampled

__all__ = [
    "GCN",
    "Handle",
    "SampledGCNConv",
    "sampled",
]
