"""Baselines: simple models beside a network, on the same split and calibrated alike.

The logistic (or, for numbers, ridge) regressions are networks of the package: a propagation with
one layer, without sampling, that L-BFGS trains. They are saved, calibrated and asked like any
other network; `Config(recipe="baseline")` trains the better one of them. The majority class, the
mean and label propagation are there to be compared with alone.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from graphdrop.calibration.fit import calibrator_for
from graphdrop.calibration.post_hoc import predict_out_of_fold
from graphdrop.calibration.temperature import TemperatureScaling
from graphdrop.config import Config
from graphdrop.config.auto import BASELINES, FEATURES, LINEAR
from graphdrop.config.recipes import merge_settings
from graphdrop.data import Dataset
from graphdrop.data.traits import feature_kind_of
from graphdrop.graph import Graph
from graphdrop.inference import GaussianPredictive, Predictive
from graphdrop.kernels import aggregate
from graphdrop.metrics import ood_auroc
from graphdrop.metrics.registry import metrics_by_name
from graphdrop.metrics.scoring import as_columns
from graphdrop.train.loop import train
from graphdrop.train.model_file import load_state
from graphdrop.train.progress import Mute
from graphdrop.train.run import Run, prepare_run
from graphdrop.train.scoring import PARTS, ScoredSamples, read_calibration_nodes
from graphdrop.train.selection import tempered_nll
from graphdrop.train.tasks import Classes, Gaussian

RESAMPLES, NODES, CHANCE = 500, 5000, 0.025
"""A baseline is better if it is in all but this share of resamples of the validation nodes."""
DAMPINGS = (0.5, 0.9)
"""Label propagation: the weights of neighbours that are tried."""
STEPS = 30
"""Label propagation: the number of steps."""


DESCRIPTIONS = {
    "logistic regression": "a logistic regression on features",
    "logistic regression, neighbours": "a logistic regression on features and neighbours' means",
    "ridge regression": "a ridge regression on features",
    "ridge regression, neighbours": "a ridge regression on features and neighbours' means",
    "majority class": "answering the shares of the classes",
    "always the mean": "always answering the mean of the training nodes",
    "label propagation": "label propagation, which reads no features,",
}
"""The baselines in a sentence, by name."""
TRIVIAL = ("majority class", "always the mean")
"""Baselines that read neither features nor edges."""


def baseline_config(given: Mapping[str, Any], dataset: Dataset, orders: int) -> Config:
    """All settings of a logistic or ridge regression on features and their means up to some hops.

    Args:
        given: settings that stay as they are, by section and name.
        dataset: the graph, by whose features their scaling is chosen.
        orders: the number of hops; 0 for a node's own features alone.
    """
    select = "calibrated-nll" if dataset.num_classes > 1 else "nll"
    chosen = {
        "recipe": "baseline",
        "model": {"orders": orders},
        "train": {"select": select},
        "predict": {"calibration": "entropy-temperature"},
    }
    by_features = FEATURES[feature_kind_of(dataset)]
    plain = Config().model_dump(mode="json")
    return Config(**merge_settings(plain, by_features, LINEAR, chosen, given))


def fit_baselines(run: Run, drawn: ScoredSamples) -> tuple[dict[str, Any], list[str]]:
    """The scores of every baseline by its name, and a note if one is better than the network.

    Args:
        run: its model has the selected state. Test labels are read for the scores alone.
        drawn: the samples of that state.
    """
    task, data = run.task, run.dataset.data
    if (
        type(task) not in (Classes, Gaussian)
        or run.loss != task.loss
        or run.ranks.size > 1
        or data.x.dim() != 2
    ):
        return {}, []
    scores, answers = dict[str, Any](), dict[str, Any]()
    for name, outputs in _make_outputs_without_weights(run):
        started = time.monotonic()
        scores[name], answers[name] = _score_outputs(run, GivenOutputs(run, outputs()))
        scores[name]["seconds"] = round(time.monotonic() - started, 3)
    for name, orders in BASELINES[task.output].items():
        started = time.monotonic()
        regression = _prepare_regression(run, orders)
        load_state(regression.model, train(regression, Mute()).best)
        scores[name], answers[name] = _score_outputs(run, ScoredSamples(regression))
        scores[name]["seconds"] = round(time.monotonic() - started, 3)
    return scores, _describe_better_ones(run, drawn, scores, answers)


class GivenOutputs(ScoredSamples):
    """Outputs for all nodes that no network has made, in the place of its samples."""

    def __init__(self, run: Run, outputs: Tensor) -> None:
        self.run = run
        self.rows = torch.unique(torch.cat([run.rows[part] for part in PARTS]))
        self._kept = [outputs[self.rows]]


def _prepare_regression(run: Run, orders: int) -> Run:
    """A regression on the data of a run, which is to be trained."""
    data = copy.copy(run.dataset.data)
    if "edge_attr" in data:
        del data.edge_attr  # which no regression reads
    dataset = replace(run.dataset, data=data)
    config = run.config
    given: dict[str, Any] = {
        "seed": config.seed,
        "data": config.data.model_dump(mode="json"),
        "objective": {"class_weights": config.objective.class_weights},
        "predict": config.predict.model_dump(mode="json") | LINEAR["predict"],
    }
    return prepare_run(baseline_config(given, dataset, orders), dataset)


def _make_outputs_without_weights(run: Run) -> Iterator[tuple[str, Any]]:
    """The baselines that have no weights: their names, and functions that make their outputs."""
    nodes, labels = len(run.data.x), run.targets[run.rows["train"]]
    if run.task.output == "gaussian":  # standardized: mean 0, logarithm of the variance 0
        outputs = 2 * as_columns(labels).shape[1]
        yield "always the mean", lambda: torch.zeros(nodes, outputs, device=run.data.x.device)
        return
    classes = run.dataset.num_classes
    counts = labels.bincount(minlength=classes).double()
    shares = ((counts + 1.0) / (counts + 1.0).sum()).float()
    yield "majority class", lambda: shares.log().expand(nodes, -1)
    yield "label propagation", lambda: _propagate_labels(run, labels, shares)


def _propagate_labels(run: Run, labels: Tensor, shares: Tensor) -> Tensor:
    """Logits of label propagation (Zhou et al., 2004), its damping chosen on validation nodes."""
    data, validation = run.data, run.rows["validation"]
    graph = Graph.from_data(data, normalization="sym")
    first = torch.zeros(len(data.x), len(shares), device=data.x.device)
    first[run.rows["train"]] = one_hot(labels, len(shares)).float()
    best, lowest = first, float("inf")
    for damping in DAMPINGS:
        state = first
        for _ in range(STEPS):
            state = damping * aggregate(graph, state) + (1.0 - damping) * first
        # a node that no label reaches has the shares of the classes
        mixed = state + 1e-3 * shares * state.sum(1, keepdim=True) + 1e-9 * shares
        logits = (mixed / mixed.sum(1, keepdim=True)).log()
        score = tempered_nll(logits[validation].softmax(1), run.targets[validation])
        if score < lowest:
            best, lowest = logits, score
    return best


def _score_outputs(run: Run, drawn: ScoredSamples) -> tuple[dict[str, Any], Any]:
    """Scores of given outputs, calibrated as the network is, and their validation prediction."""
    rows, raw = run.rows, drawn.predict(run.rows["validation"], None)
    if run.config.predict.calibration == "none":
        return {n: run.scores(n, drawn.predict(rows[n], None)) for n in ("validation", "test")}, raw
    kind = calibrator_for(run.config.predict.calibration, run.task.output)
    kind = TemperatureScaling if kind.reads_graph else kind
    nodes = read_calibration_nodes(run, drawn, kind)
    calibrator, halves = nodes.fit(kind), nodes.fit_halves(kind)
    if halves is not None and run.task.output == "classes" and not run.config.data.calibration:
        validation = predict_out_of_fold(drawn, halves, rows["calibration"])
    else:
        validation = drawn.predict(rows["validation"], calibrator)
    test = run.scores("test", drawn.predict(rows["test"], calibrator))
    return {"validation": run.scores("validation", validation), "test": test}, raw


def _describe_better_ones(
    run: Run, drawn: ScoredSamples, scores: dict[str, Any], answers: dict[str, Any]
) -> list[str]:
    """Notes on the best and the trivial baseline, if they are better beyond chance.

    Validation nodes decide that.
    """
    rows = run.rows["validation"]
    targets = run.targets[rows]
    own, better = drawn.predict(rows, None), dict[str, float]()
    generator = torch.Generator().manual_seed(0)
    few = torch.randperm(len(rows), generator=generator)[:NODES]
    resamples = [
        few[torch.randint(len(few), (len(few),), generator=generator)] for _ in range(RESAMPLES)
    ]
    base = _measure_quality(own, targets, [few, *resamples])
    for name, answer in answers.items():
        gains = _measure_quality(answer, targets, [few, *resamples]) - base
        if float(gains[0]) > 0.0 and float(gains[1:].quantile(CHANCE)) > 0.0:
            better[name] = float(gains[0])
    if not better:
        return []
    network = run.scores("test", drawn.predict(run.rows["test"]))
    metric = "rmse" if run.task.output == "gaussian" else "auroc"
    best = max(better, key=lambda name: better[name])
    notes = []
    for name in dict.fromkeys([best, *(name for name in TRIVIAL if name in better)]):
        found = scores[name]["test"]
        by = metric if metric in found else "accuracy"
        fitted = name in BASELINES[run.task.output]
        advice = ": take it, graphdrop train --baseline" if fitted else ""
        notes.append(
            f"{DESCRIPTIONS[name]} is better here than the network (test "
            f"{metrics_by_name()[by].title} {found[by]:.3g} against {network[by]:.3g}; chosen on "
            f"validation nodes){advice}"
        )
    return notes


def _measure_quality(answer: Any, targets: Tensor, parts: list[Tensor]) -> Tensor:
    """Of parts of the nodes: AUROC for two classes, accuracy for more, minus RMSE for numbers."""
    if isinstance(answer, GaussianPredictive):
        columns = targets if targets.dim() > 1 else targets[:, None]
        errors = (answer.mean - columns).double().square().mean(1)
        return torch.stack([-errors[part].mean().sqrt() for part in parts])
    assert isinstance(answer, Predictive)  # noqa: S101 - as `fit_baselines` has checked
    if answer.probabilities.shape[1] > 2:
        right = (answer.probabilities.argmax(1) == targets).double()
        return torch.stack([right[part].mean() for part in parts])
    score, positive = answer.probabilities[:, 1], targets == 1
    found = [
        float(ood_auroc(score[part], positive[part]))
        if 0 < int(positive[part].sum()) < len(part)
        else 0.5
        for part in parts
    ]
    return torch.tensor(found, dtype=torch.float64)
