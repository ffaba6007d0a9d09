"""Layers and models with sampled connections."""

from graphdrop.nn.conv import Init, SampledGCNConv
from graphdrop.nn.features import SparseFeatures
from graphdrop.nn.handle import Handle
from graphdrop.nn.models import GCN
from graphdrop.nn.plan import Order
from graphdrop.nn.propagation import MixedOrderPropagation
from graphdrop.nn.sampled import SampledModel, sampled

__all__ = [
    "GCN",
    "Handle",
    "Init",
    "MixedOrderPropagation",
    "Order",
    "SampledGCNConv",
    "SampledModel",
    "SparseFeatures",
    "sampled",
]
