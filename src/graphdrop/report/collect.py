"""The content of a report: predictions, test scores and training curves of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphdrop import metrics
from graphdrop.calibration import PredictionSets
from graphdrop.calibration.refusal import Trust, find_trusted
from graphdrop.config import Config
from graphdrop.inference import Predictive, predict
from graphdrop.inference.origin import Origin
from graphdrop.metrics import ThresholdAxis, registry
from graphdrop.metrics.registry import Scores
from graphdrop.nn.sampled import layer_inputs, sampled
from graphdrop.sampling import RankedEdges
from graphdrop.train.folder import METRICS, RESULT
from graphdrop.train.objective import TERMS
from graphdrop.train.records import ModelNote, header_note, metrics_lines, result_note
from graphdrop.train.run_dataset import graph_fingerprint

Numbers = list[float | None]

AXES = (ThresholdAxis.LARGEST, ThresholdAxis.LOG_CLASSES, ThresholdAxis.RANGE)
THRESHOLDS = [number / 100 for number in range(101)]
COVERAGE = 0.9
"""Of the sets, and of the validation nodes that are answered."""
POINTS = 400
"""The approximate largest number of points of a curve."""
LARGE_NODES = 200_000
"""Beyond so many nodes a graph is predicted layer by layer, and its hidden layers not measured."""
MEANS = 100
"""The approximate number of means to which the terms of the loss are averaged."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """The content of a report for one run, whatever it predicts."""

    folder: Path
    config: Config
    scores: Scores
    """The scores on the test nodes."""
    baselines: dict[str, dict[str, Any]]
    """The scores of simple models on the same split, by their name, as the training left them."""
    drop_rates: Numbers
    selected_epoch: int
    data_sha256: str
    graph_sha256: str
    """Of ids, edges, labels and split, without the features: runs that share it are compared."""
    num_features: int
    versions: dict[str, str]
    seconds: float | None
    """Duration of the training; `None` while it is not finished."""


def describe_run(
    folder: Path, config: Config, model: nn.Module, data: Data, header: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields of `Evidence` of a run but its scores."""
    about, result = header_note(ModelNote, header, folder), result_note(folder / RESULT)
    return {
        "folder": folder,
        "config": config,
        "baselines": result.baselines,
        "drop_rates": list(sampled(model).drop_rates().values()),
        "selected_epoch": about.epoch,
        "data_sha256": about.data.sha256,
        "graph_sha256": graph_fingerprint(data),
        "num_features": int(data.x.shape[1]),
        "versions": about.versions,
        "seconds": result.seconds,
    }


@dataclass(frozen=True, eq=False, kw_only=True)
class RunEvidence(Evidence):
    """The content of a report for one run that predicts classes."""

    prediction: Predictive
    """The prediction for all nodes."""
    decided: Tensor
    """The predicted class of every node, by vote or by mean as the run's settings say."""
    sets: PredictionSets | None
    """The 90 % set of every node; `None` for a run that carries no calibration nodes."""
    trust: Trust
    """The rule by which the run refuses: it keeps 90 % of the validation nodes."""
    uncalibrated: Scores | None
    """The same without the calibrator; `None` for a run that has none."""
    floor: float | None
    """The calibration error that chance alone gives on these test nodes, if it was simulated."""
    floor_high: float | None
    """What chance alone exceeds once in twenty times."""
    edges: RankedEdges | None
    """The edges by their keep probability; `None` for a run without fitted rates per edge."""
    training: dict[str, Any]
    reliability: dict[str, Numbers]
    raw_reliability: dict[str, Numbers] | None
    """Without the calibrator; `None` for a run that has none."""
    pavpu: dict[str, dict[str, Numbers]]
    """PAvPU curves by the axis of the threshold."""
    risk: dict[str, Numbers]
    smoothing: dict[str, Numbers]
    """Over-smoothing metrics: one value per hidden layer."""
    data_files: dict[str, str]
    """The sha256 of every file that the data came from."""


def collect(
    folder: Path, config: Config, model: nn.Module, data: Data, header: Mapping[str, Any]
) -> RunEvidence:
    """Predict with the selected network of a run, and compute scores and curves.

    Args:
        folder: of the run, for its metrics and its result.
        config: its settings.
        model: its selected network.
        data: its graph.
        header: what the file of the network says about it.
    """
    prediction = _predict(model, data)
    decided = prediction.predicted
    test = data.test_mask
    probabilities, labels, predictions = prediction.probabilities[test], data.y[test], decided[test]
    scores = registry.score(select_rows(prediction, test), labels, config)
    uncalibrated = raw_reliability = None
    if prediction.calibrated:
        raw = _predict(model, data, rows=test, calibrator=None)
        uncalibrated = registry.score(raw, labels, config)
        raw_reliability = _measure_reliability(raw.probabilities, labels)
    pavpu = {
        axis.value: metrics.pavpu_curve(
            probabilities, labels, THRESHOLDS, axis=axis.value, predictions=predictions
        )
        for axis in AXES
    }
    curve = metrics.risk_coverage_curve(probabilities, labels, predictions=predictions)
    few = torch.linspace(0, len(curve.risk) - 1, min(POINTS, len(curve.risk))).long()
    result = result_note(folder / RESULT)
    return RunEvidence(
        **describe_run(folder, config, model, data, header),
        prediction=prediction,
        decided=decided,
        sets=None if prediction.origin.set_nodes is None else prediction.sets(COVERAGE),
        trust=find_trusted(prediction, COVERAGE, config.predict.cost_ratio),
        scores=scores,
        uncalibrated=uncalibrated,
        floor=result.calibration.get("ece_floor"),
        floor_high=result.calibration.get("ece_floor_high"),
        edges=None if prediction.origin.rank_edges is None else prediction.edges,
        training=_read_course(folder),
        reliability=_measure_reliability(probabilities, labels),
        raw_reliability=raw_reliability,
        pavpu={axis: _plain_fields(values) for axis, values in pavpu.items()},
        risk={name: plain(values[few]) for name, values in curve._asdict().items()},
        smoothing=_measure_smoothing(model, data),
        data_files=result.data.files,
    )


def _predict(model: nn.Module, data: Data, **options: Any) -> Predictive:
    """The prediction, of a large graph layer by layer if the network has such passes."""
    if len(data.x) > LARGE_NODES:
        try:
            answer: Predictive = predict(model, data, layerwise=True, **options)
            return answer
        except ValueError as error:
            if "layerwise" not in str(error):
                raise
    whole: Predictive = predict(model, data, **options)
    return whole


def select_rows(prediction: Predictive, rows: Tensor) -> Predictive:
    """The prediction of some of its rows, without the graph that it comes from."""
    return Predictive(
        prediction.probabilities[rows],
        prediction.votes[rows],
        prediction.expected_entropy[rows],
        prediction.deviation[rows],
        prediction.samples,
        decision=prediction.decision,
        origin=Origin(class_counts=prediction.origin.class_counts),
    )


def plain(values: Tensor) -> Numbers:
    """A list of numbers for JSON, with `None` for values that are not finite."""
    return [value if math.isfinite(value) else None for value in values.double().tolist()]


def _measure_reliability(probabilities: Tensor, labels: Tensor) -> dict[str, Numbers]:
    return _plain_fields(metrics.reliability(probabilities, labels))


def _plain_fields(tensors: Any) -> dict[str, Numbers]:
    """The fields of a named tuple of tensors as lists for JSON."""
    return {name: plain(values) for name, values in tensors._asdict().items()}


def _read_course(folder: Path) -> dict[str, Any]:
    """Training curves: terms of the loss, validation scores and drop rates by epoch."""
    lines = list(metrics_lines(folder / METRICS))
    length = max(1, len(lines) // MEANS)
    chunks = [lines[start : start + length] for start in range(0, len(lines), length)]
    evaluated = [line for line in lines if "validation" in line]
    evaluated = evaluated[:: max(1, len(evaluated) // POINTS)]
    return {
        "epoch": [chunk[-1]["epoch"] for chunk in chunks],
        **{
            term: [fmean(line.get(term, 0.0) for line in chunk) for chunk in chunks]
            for term in ("loss", *TERMS)
        },
        "evaluated": [line["epoch"] for line in evaluated],
        "accuracy": [line["validation"]["accuracy"] for line in evaluated],
        "validation_nll": [line["validation"]["nll"] for line in evaluated],
        # one list per layer
        "drop_rates": list(zip(*(line["drop_rates"] for line in evaluated), strict=True)),
    }


Measure = Callable[[Tensor, Tensor], Tensor]
SMOOTHING: dict[str, Measure] = {
    "total variation": metrics.total_variation,
    "Dirichlet energy": metrics.dirichlet_energy,
    "mean average distance": metrics.mean_average_distance,
}


def _measure_smoothing(model: nn.Module, data: Data) -> dict[str, Numbers]:
    """Over-smoothing metrics of the output of every hidden layer, in one prediction pass."""
    values: dict[str, list[Tensor]] = {name: [] for name in SMOOTHING}
    source, destination = data.edge_index
    if len(data.x) <= LARGE_NODES and bool((source != destination).any()):
        with layer_inputs(sampled(model)) as outputs:
            predict(model, data, 1)
        for output in outputs:
            for name, measure in SMOOTHING.items():
                try:
                    values[name].append(measure(output, data.edge_index))
                except ValueError:  # it is undefined, as for a directed chain
                    values[name].append(torch.tensor(torch.nan))
    return {name: plain(torch.tensor(row)) for name, row in values.items()}
