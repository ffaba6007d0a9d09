"""Layers and models that take any sampler."""

from graphdrop.nn.conv import Init, Order, SampledGCNConv
from graphdrop.nn.features import SparseFeatures
from graphdrop.nn.models import GCN

__all__ = ["GCN", "Init", "Order", "SampledGCNConv", "SparseFeatures"]
