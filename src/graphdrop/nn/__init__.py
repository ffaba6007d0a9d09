"""Layers and models that take any sampler."""

from graphdrop.nn.conv import GCNLayer, Init, Order
from graphdrop.nn.features import SparseFeatures
from graphdrop.nn.models import GCN

__all__ = ["GCN", "GCNLayer", "Init", "Order", "SparseFeatures"]
