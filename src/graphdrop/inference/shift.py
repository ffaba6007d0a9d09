"""Detection of a shift between the graph of the calibration and another graph."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.sampling.rates import BetaBernoulliRate

FAR = 0.25
"""A relative difference of a mean above this is reported as a shift."""


ALIKE = "features and degrees look alike; perhaps nodes or edges are in another order"


class CalibrationShiftWarning(UserWarning):
    """A calibrated model predicts on a different graph than it was calibrated on."""


def describe_graph(data: Any) -> dict[str, float]:
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


def digest_graph(settings: PredictionDefaults, data: Any) -> dict[str, str]:
    """The sha256 of the features and of the edges of a graph, as a model carries them."""
    return {"x": settings.digest(data.x), "edge_index": settings.digest(data.edge_index)}


def is_known_graph(settings: PredictionDefaults, data: Any) -> bool:
    """Whether a graph is the one that a model was calibrated on, with its nodes in that order.

    Features and edges are compared by their sha256; where a model was saved without, the numbers
    of nodes and edges decide.
    """
    known, x, edges = settings.calibrated_on, getattr(data, "x", None), _edges(data)
    if known is None or not (isinstance(x, Tensor) and isinstance(edges, Tensor)):
        return False
    if known["nodes"] != x.shape[0] or known["edges"] != edges.shape[1]:
        return False
    return settings.trained_on is None or settings.trained_on == digest_graph(settings, data)


def check_edges_of_rates(model: nn.Module, settings: PredictionDefaults, data: Any) -> None:
    """Raise if a model with a free rate for every edge is given other edges than in training."""
    known, edges = settings.trained_on, _edges(data)
    if known is None or not isinstance(edges, Tensor) or getattr(data, "n_id", None) is not None:
        return  # of a mini-batch the ids of its edges are looked up in the whole graph
    free = any(isinstance(part, BetaBernoulliRate) and part.entries for part in model.modules())
    if free and settings.digest(edges) != known.get("edge_index"):
        raise ValueError(
            "the model has a rate for every edge of the graph that it was trained on, and "
            "data.edge_index is another: give that graph, with nodes and edges in the same order, "
            "or train a method with rates for any graph, such as GCN-BBGDC-AMORTISED"
        )


def _edges(data: Any) -> Any:
    return getattr(data, "edge_index", None)


def describe_shift(settings: PredictionDefaults, data: Any) -> str | None:
    """How a graph differs from the one of the calibration, in words; ``None`` if it is that one."""
    known = settings.calibrated_on
    if known is None or getattr(data, "x", None) is None or _edges(data) is None:
        return None
    if is_known_graph(settings, data):
        return None
    now = describe_graph(data)
    far = [
        f"{name.replace('_', ' ')} {now[name]:.3g} in place of {known[name]:.3g}"
        for name in ("feature_mean", "feature_deviation", "degree_mean")
        if abs(now[name] - known[name]) > FAR * max(abs(known[name]), 1e-12)
    ]
    sizes = [
        f"{int(graph['nodes']):,} nodes and {int(graph['edges']):,} edges" for graph in (known, now)
    ]
    return (
        f"the model was calibrated on another graph, of {sizes[0]}; this one has {sizes[1]}, and "
        f"calibration may not transfer to it ({'; '.join(far) or ALIKE}): check it on labelled "
        "nodes of this graph"
    )


def warn_of_shift(settings: PredictionDefaults, data: Any) -> None:
    """Warn that a calibrator may not transfer to a different graph."""
    shift = describe_shift(settings, data)
    if shift is not None:
        # past `predict` and the decorator around it, to the line that called it
        warnings.warn(shift, CalibrationShiftWarning, stacklevel=4)
