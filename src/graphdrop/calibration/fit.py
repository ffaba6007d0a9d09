"""``calibrate`` and ``apply``: fit a calibrator, and use it; the calibrators by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphdrop.calibration.isotonic import IsotonicRegression
from graphdrop.calibration.node_temperature import GATS, CaGCN
from graphdrop.calibration.scaling import LabelScaling, VarianceScaling, VectorScaling
from graphdrop.calibration.temperature import EntropyTemperatureScaling, TemperatureScaling
from graphdrop.inference.calibrator import Calibrator, Surroundings
from graphdrop.inference.classes import Predictive
from graphdrop.inference.labels import LabelPredictive
from graphdrop.metrics.inputs import check_labels

if TYPE_CHECKING:
    from torch_geometric.data import Data


METHODS: dict[str, type[Calibrator]] = {
    kind.name: kind
    for kind in (
        TemperatureScaling,
        EntropyTemperatureScaling,
        VectorScaling,
        IsotonicRegression,
        CaGCN,
        GATS,
        LabelScaling,
        VarianceScaling,
    )
}


def calibrator_for(method: str, output: str) -> type[Calibrator]:
    """The class of calibrator for a method; labels and numbers have one class each."""
    if method not in METHODS:
        raise ValueError(f"method is {method!r}: give one of {', '.join(METHODS)}")
    if output == "classes":
        return METHODS[method]
    return LabelScaling if output == "labels" else VarianceScaling


def from_json(values: Mapping[str, Any]) -> Calibrator:
    """Make the calibrator whose ``name`` and fields (``as_json``) these are."""
    numbers = {name: value for name, value in values.items() if name != "name"}
    return METHODS[values["name"]](**numbers)


@torch.no_grad()
def calibrate(
    answer: Predictive | LabelPredictive | Tensor,
    labels: Tensor,
    method: str = "temperature",
    *,
    data: Data | None = None,
    mask: Tensor | None = None,
) -> Calibrator:
    """Fit a calibrator on nodes that the weights were not fitted to, such as validation nodes.

    Args:
        answer: the prediction for these nodes: logits ``[n, classes]`` of any model, logits of
            several samples ``[samples, n, classes]``, or a ``Predictive``, whose mean is then
            calibrated. With ``mask`` it is the prediction for all nodes.
        labels: their labels ``[n]``.
        method: ``"temperature"``, ``"entropy-temperature"``, ``"vector"``, ``"isotonic"``, or with
            ``data`` one of those that read the graph, ``"cagcn"`` and ``"gats"``. Ignored for a
            ``LabelPredictive``, which has a method of its own.
        data: the graph, with ``edge_index [2, E]``, for methods that read it; its ``train_mask``,
            if it has one, tells GATS how far a node is from the training nodes.
        mask: the nodes to calibrate on, as a bool mask ``[n]`` or by number; all by default.

    Returns:
        A calibrator, for ``predict(model, data, calibrator=...)``, which applies it to every
        sample, for ``Predictive.from_logits``, or for ``apply(calibrator, prediction)``.

    Example:
        >>> logits = torch.tensor([[4.0, 0.0]]).repeat(8000, 1)
        >>> calibrator = calibrate(logits, torch.arange(8000) % 4 // 3)  # right 3 times of 4
        >>> round(apply(calibrator, logits).max().item(), 2)
        0.75
    """
    output = "labels" if isinstance(answer, LabelPredictive) else "classes"
    if isinstance(answer, LabelPredictive):
        outputs = torch.logit(answer.probabilities.clamp(1e-7, 1.0 - 1e-7))[None]
    elif isinstance(answer, Predictive):
        outputs = _logits_of(answer)
    else:
        outputs = answer if answer.dim() == 3 else answer[None]
    if len(labels) != outputs.shape[1]:
        raise ValueError(
            f"labels has {len(labels)} entries for {outputs.shape[1]} predictions: give one for "
            "each, such as answer of val_mask and y[val_mask], or all of both and mask=val_mask"
        )
    kind = calibrator_for(method, output)
    if output == "classes" and (outputs.dim() != 3 or outputs.shape[2] < 2):
        raise ValueError(
            f"answer has shape {tuple(outputs.shape[1:])}; it takes [n, classes] with two classes "
            "or more. For a yes or no pass logits [n, 2], of which one column is 0."
        )
    chosen, targets = (outputs, labels) if mask is None else (outputs[:, mask], labels[mask])
    read = outputs if kind.reads_graph else chosen
    if not bool(read.isfinite().all()):
        row = int((~read.isfinite()).nonzero()[:, 1].min())
        where = "" if mask is None or kind.reads_graph else " of those that mask chooses"
        raise ValueError(
            f"answer has a logit that is not finite in row {row}{where}; a calibrator takes finite "
            "logits. Look at the features and the training of the model."
        )
    targets = _check_labels(targets, chosen, output)
    surroundings = None
    if kind.reads_graph and data is not None:
        surroundings = Surroundings.of(data, outputs.double().mean(0), mask)
    return kind.fit(lambda: iter(chosen), targets, surroundings)


@torch.no_grad()
def apply(
    calibrator: Calibrator, answer: Predictive | Tensor, data: Data | None = None
) -> Predictive | Tensor:
    """Apply a calibrator to a prediction, or to the logits of any model; returns probabilities.

    Only the mean of a prediction is calibrated: the parts of the entropy and the standard errors
    are then undefined, and the prediction has ``calibrated == "mean"``.

    Args:
        calibrator: what ``calibrate`` fitted.
        answer: a prediction, or logits ``[n, classes]`` or ``[samples, n, classes]``; of all nodes
            where the calibrator reads the graph.
        data: the graph, for a calibrator that reads it.
    """
    logits = _logits_of(answer) if isinstance(answer, Predictive) else answer
    probabilities = Predictive.from_logits(logits, data, calibrator).probabilities
    if not isinstance(answer, Predictive):
        return probabilities
    return replace(
        answer,
        probabilities=probabilities,
        expected_entropy=torch.full_like(answer.expected_entropy, torch.nan),
        deviation=torch.full_like(answer.deviation, torch.nan),
        decision="mean",
        calibrated="mean",
    )


def _logits_of(answer: Predictive) -> Tensor:
    """The logarithms of the mean probabilities as one sample, ``[1, n, classes]``."""
    return answer.probabilities.clamp_min(torch.finfo(torch.float32).tiny).log()[None]


def _check_labels(targets: Tensor, outputs: Tensor, output: str) -> Tensor:
    """The labels of the calibration nodes as the fit reads them, if they fit the predictions."""
    if output == "labels":
        if targets.shape != outputs.shape[1:]:
            raise ValueError(
                f"labels has shape {tuple(targets.shape)} for predictions of shape "
                f"{tuple(outputs.shape[1:])}: give 0 or 1 for every node and label"
            )
        if not bool(((targets == 0) | (targets == 1)).all()):
            raise ValueError("labels has an entry that is not 0 or 1: give 0 or 1 for every label")
        return targets
    return check_labels(targets, *outputs.shape[1:])
