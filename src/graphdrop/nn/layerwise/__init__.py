"""Layer-wise passes: a network over all nodes layer by layer, in chunks of rows.

A full-batch pass has the states of all layers and its intermediate results in memory. A layer-wise
one has the input and the output of one layer, in memory-mapped files if asked. Draws are keyed by
node ids, so that the masks are those of the full batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphdrop.graph.validate import check_rows
from graphdrop.io.read_ahead import advise
from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.nn.features import SparseFeatures
from graphdrop.nn.inputs import check_features
from graphdrop.nn.layerwise.attached import LayerwiseModel
from graphdrop.nn.layerwise.gcn import LayerwiseGCN
from graphdrop.nn.layerwise.storage import Rows, States
from graphdrop.nn.models import GCN, prepare_features
from graphdrop.nn.sampled import Handle, SampledModel
from graphdrop.sampling.samplers import Draw

__all__ = ["Layerwise", "layerwise_samples"]


@dataclass(frozen=True)
class Layerwise:
    """The options of a layer-wise prediction.

    Example:
        >>> Layerwise(batch_size=10_000).folder is None
        True
    """

    batch_size: int | None = None
    """Number of rows that are computed at once; chosen by default."""
    folder: str | Path | None = None
    """A folder for hidden states in memory-mapped files; None is for memory."""


@torch.no_grad()
def layerwise_samples(
    engine: SampledModel,
    data: Any,
    draws: Iterable[Draw | None],
    rows: Tensor | None = None,
    options: Layerwise | None = None,
    *,
    settings: PredictionDefaults | None = None,
) -> Iterator[Tensor]:
    """As `SampledModel.samples` in evaluation, layer by layer.

    Args:
        engine: a `GCN`, or the handle of an attached model with layers such as PyG's `GATConv`.
        data: a PyG `Data` with features as stored.
        draws: the draw of each pass.
        rows: the nodes whose outputs are wanted, by number or as a bool mask; all by default.
        options: rows at once, and where hidden states are stored.
        settings: preprocessing of features; by default that of the model.

    Returns:
        The outputs `[rows, out]` of each draw, one by one.

    Example:
        >>> from torch_geometric.data import Data
        >>> data = Data(x=torch.randn(3, 8), edge_index=torch.tensor([[0, 1], [1, 2]]))
        >>> [out.shape for out in layerwise_samples(GCN(8, 16, 2, 5), data, [None])]
        [torch.Size([3, 5])]
    """
    options = options or Layerwise()
    settings = settings or engine.defaults
    x = getattr(data, "x", None)
    if not isinstance(x, Tensor | SparseFeatures):
        raise TypeError(
            f"data.x is of type {type(x).__name__}; layerwise=True takes a tensor of features. "
            "Predict without layerwise."
        )
    like = next(engine.module.parameters())
    if not like.is_cpu:
        raise ValueError(
            f"the model is on {like.device}; layerwise=True computes on the CPU. Use model.cpu(), "
            "or leave layerwise out."
        )
    transform = None if settings.features == "stored" else settings.transform
    prepared = prepare_features(engine, data, settings) if isinstance(engine, GCN) else None
    if prepared is not None:
        x, transform = prepared, None
    if isinstance(x, Tensor):
        advise(x, "all")
    features = Rows(x, like.dtype, transform)
    states = States(len(features), options.batch_size, options.folder, like.dtype)
    if rows is not None:
        rows = check_rows(rows, len(features))
    if isinstance(engine, GCN):
        if isinstance(x, SparseFeatures) or x.dtype == like.dtype:
            check_features(x, engine.convs[0].in_channels, like.dtype)
        weight = getattr(data, "edge_weight", None)
        graph = engine.inputs.graph(data.edge_index, weight, len(features), engine.normalization)
        if engine.reads_edges:
            engine.show_edges(engine.inputs, graph, engine.convs[0].read(settings.inputs(data).x))
        return LayerwiseGCN(engine, features, graph, states, rows).samples(draws)
    if not isinstance(engine, Handle):
        raise TypeError(f"{type(engine).__name__} has no layer-wise passes: leave layerwise out")
    engine.observe(settings.inputs(data))
    return LayerwiseModel(engine, features, data, states, rows).samples(draws)
