"""Detection of a shift between the graph of the calibration and another graph."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import Tensor

from graphdrop.nn.defaults import PredictionDefaults

FAR = 0.25
"""A relative difference of a mean above this is reported as a shift."""


class CalibrationShiftWarning(UserWarning):
    """A calibrated model predicts on a different graph than it was calibrated on."""


def described(data: Any) -> dict[str, float]:
    """Properties of a graph: sizes, mean and deviation of features, degrees."""
    x, edges = data.x, data.edge_index
    nodes = int(x.shape[0])
    values = x.values() if isinstance(x, Tensor) and x.layout is torch.sparse_csr else x
    total, squares = float(values.double().sum()), float(values.double().square().sum())
    mean = total / max(1, x.shape[0] * x.shape[1])
    square = squares / max(1, x.shape[0] * x.shape[1])
    return {
        "nodes": float(nodes),
        "edges": float(edges.shape[1]),
        "feature_mean": mean,
        "feature_deviation": math.sqrt(max(0.0, square - mean * mean)),
        "degree_mean": edges.shape[1] / max(1, nodes),
    }


def is_known_graph(settings: PredictionDefaults, data: Any) -> bool:
    """Whether a graph has the nodes and edges of the one that a model was calibrated on."""
    known, x, edges = settings.calibrated_on, getattr(data, "x", None), _edges(data)
    if known is None or x is None or edges is None:
        return False
    return bool(known["nodes"] == x.shape[0] and known["edges"] == edges.shape[1])


def _edges(data: Any) -> Any:
    return getattr(data, "edge_index", None)


def warn_of_shift(settings: PredictionDefaults, data: Any) -> None:
    """Warn that a calibrator may not transfer to a different graph."""
    known = settings.calibrated_on
    if known is None or getattr(data, "x", None) is None or _edges(data) is None:
        return
    if is_known_graph(settings, data):
        return
    now = described(data)
    far = [
        f"{name.replace('_', ' ')} {now[name]:.3g} in place of {known[name]:.3g}"
        for name in ("feature_mean", "feature_deviation", "degree_mean")
        if abs(now[name] - known[name]) > FAR * max(abs(known[name]), 1e-12)
    ]
    shift = f"it differs: {'; '.join(far)}" if far else "features and degrees look alike"
    warnings.warn(
        "the model was calibrated on another graph, and its calibration may not transfer to this "
        f"one ({shift}): check it on labelled nodes of this graph",
        CalibrationShiftWarning,
        stacklevel=3,
    )
