"""Features that are kept as a `GCN` reads them, preprocessed and sparse, for all passes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.nn.features import SparseFeatures
from graphdrop.nn.models import GCN

HELD_BYTES = 1 << 30
"""Larger features are read from where they are stored, in every pass."""


def holds_features(x: Tensor) -> bool:
    """Whether features are small enough, and of a type that needs no conversion."""
    entries = x.numel() if x.layout is torch.strided else 4 * x._nnz()
    return x.dtype == torch.float32 and x.itemsize * entries <= HELD_BYTES


def held_features(
    model: GCN, data: Data, settings: PredictionDefaults
) -> Tensor | SparseFeatures | None:
    """The features of all nodes as the model reads them, or None if they are not held.

    Args:
        model: the network; its cache keeps them for later calls.
        data: with features as stored.
        settings: preprocessing of features.
    """
    x, first = data.x, model._convs[0]
    if not isinstance(x, Tensor) or x.dtype != first.weight.dtype or not holds_features(x):
        return None
    return model._inputs.features(settings.inputs(data).x, first)
