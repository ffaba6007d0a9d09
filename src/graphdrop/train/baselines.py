"""Baselines: simple models beside a network, on the same split and calibrated alike.

The logistic (or, for numbers, ridge) regressions are networks of the package: a propagation with
one layer, without sampling, that L-BFGS trains. They are saved, calibrated and asked like any
other network; `Config(recipe="baseline")` trains the better one of them. The majority class, the
mean and label propagation are there to be compared with alone.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from graphdrop.calibration.methods import calibrator_for
from graphdrop.calibration.temperature import TemperatureScaling
from graphdrop.config import Config
from graphdrop.config.auto import BASELINES, FEATURES, LINEAR
from graphdrop.config.recipes import merged
from graphdrop.data import Dataset
from graphdrop.data.features import column_moments
from graphdrop.data.traits import feature_kind_of
from graphdrop.graph import Graph
from graphdrop.inference import GaussianPredictive, Predictive
from graphdrop.kernels import aggregate
from graphdrop.metrics import ood_auroc
from graphdrop.metrics.registry import as_columns, metrics_by_name
from graphdrop.nn.features import SparseFeatures
from graphdrop.train import checkpoint
from graphdrop.train.post_hoc_calibration import fit_calibrator, out_of_fold
from graphdrop.train.progress import Mute
from graphdrop.train.scored_samples import PARTS, ScoredSamples
from graphdrop.train.selection import tempered_nll
from graphdrop.train.tasks import Classes, Gaussian

if TYPE_CHECKING:
    from graphdrop.train.trainer import Trainer

ITERATIONS, SPARSE_ITERATIONS = 100, 30
"""The largest numbers of iterations of L-BFGS for one strength of the L2: with the matrix of
features and means at hand, and where every iteration takes sums over the whole graph."""
LARGEST = 1 << 25
"""The matrix of features and means of training nodes has no more numbers than this."""
PRODUCT_GAIN = 8
"""A dense product does so many multiplications in the time of one of a sparse one."""
FEW, LONGEST = 4, 2000
"""With so many times more features than training nodes, of which there are at most so many, the
problem is solved in the span of the nodes."""
COLUMNS = 256
"""Features whose means are made at once."""
DIRECTIONS = 16
"""Random directions in which the variance of the features of a hop is measured."""
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
    return Config(**merged(plain, by_features, LINEAR, chosen, given))


class LinearProblem:
    """A logistic or ridge regression, solved by L-BFGS for one strength of its L2 after the other.

    The L2 counts for features and means of unit variance. Where numbers are predicted, their
    variance is the same for all nodes.
    """

    @torch.no_grad()
    def __init__(self, trainer: Trainer) -> None:
        _check_solvable(trainer)
        self.trainer, self.layer = trainer, trainer.model.convs[0]
        propagation, data = trainer.model.input_propagation, trainer.inputs
        rows = trainer.rows["train"]
        x: Any = trainer.model._read(data.x)
        graph = Graph.from_data(data, normalization=propagation.normalization)
        orders, features = propagation.orders, (propagation.orders + 1) * x.shape[1]
        sparse = isinstance(x, SparseFeatures)
        entries = x.matrix.num_entries if sparse else x.numel()
        sums = entries * (orders + 1) + graph.num_edges * orders
        wide = None
        if len(rows) * features <= min(LARGEST, PRODUCT_GAIN * sums):
            wide = _materialized(x, graph, orders, rows)
        self.shift = torch.zeros(features, device=rows.device)
        if wide is not None and not sparse:
            moments = column_moments(wide, torch.arange(len(wide), device=wide.device))
            self.shift, self.scale = (one.to(wide) for one in moments)
        else:  # a rare word is not to weigh more than others
            self.scale = _hop_deviations(x, graph, orders, rows).repeat_interleave(x.shape[1])
        self.iterations = SPARSE_ITERATIONS if wide is None else ITERATIONS
        self.basis: Tensor | None = None
        """Orthonormal columns that span the solutions, ``[features, rows]``, where rows are few."""
        self.apply: Callable[[Tensor], Tensor]
        if wide is not None:
            wide = wide.sub_(self.shift).div_(self.scale)
            if FEW * len(rows) <= features and len(rows) <= LONGEST:
                # the solution is a sum of rows (representer theorem): wide = factor' basis'
                self.basis, factor = torch.linalg.qr(wide.t())
                wide = factor.t().contiguous()
            self.apply = wide.matmul
        else:
            scale = self.scale[:, None]
            self.apply = lambda weight: propagation(x, graph, weight=weight / scale)[rows]
        if not trainer.epoch:
            self.layer.weight.zero_()
            self.layer.bias.zero_()

    @torch.no_grad()
    def solve(self, strength: float) -> dict[str, float]:
        """Minimize the NLL and the L2, from the last solution on; the terms of the loss by name."""
        trainer, layer, scale = self.trainer, self.layer, self.scale[:, None]
        trainer.model.eval()
        outputs = len(layer.bias)
        free = outputs // 2 if trainer.task.output == "gaussian" else outputs
        weight = (layer.weight.t() * scale)[:, :free].contiguous()
        if self.basis is not None:
            weight = self.basis.t() @ weight
        weight.requires_grad_()
        bias = (layer.bias + layer.weight @ self.shift).requires_grad_()
        optimizer = torch.optim.LBFGS(
            [weight, bias],
            max_iter=self.iterations,
            tolerance_grad=1e-5,
            tolerance_change=1e-7,
            line_search_fn="strong_wolfe",
        )
        terms: dict[str, float] = {}

        @torch.enable_grad()
        def closure() -> Tensor:
            optimizer.zero_grad()
            found = torch.nn.functional.pad(self.apply(weight), (0, outputs - free)) + bias
            nll, l2 = trainer.loss(found, trainer.labels), strength * weight.square().sum()
            total: Tensor = nll + l2
            total.backward()  # type: ignore[no-untyped-call]
            terms.update(nll=float(nll.detach()), l2=float(l2.detach()))
            return total

        optimizer.step(closure)  # type: ignore[no-untyped-call]
        if self.basis is not None:
            weight = self.basis @ weight
        solution = torch.nn.functional.pad(weight, (0, outputs - free)) / scale
        layer.weight.copy_(solution.t())
        layer.bias.copy_(bias - self.shift @ solution)
        return {"loss": sum(terms.values()), "kl": 0.0, **terms}


def _check_solvable(trainer: Trainer) -> None:
    """Refuse L-BFGS for a network that is not one deterministic linear map."""
    model, train = trainer.config.model, trainer.config.train
    linear = {"architecture": "propagation", "propagate": "hidden", "layers": 1, "method": "GCN"}
    wrong = [
        f"model.{n} is {getattr(model, n)}" for n, v in linear.items() if getattr(model, n) != v
    ]
    wrong += [f"train.batch_size is {train.batch_size}"] if train.batch_size else []
    wrong += ["model.dropout is above 0"] if model.dropout else []
    if wrong:
        raise ValueError(
            f'train.optimizer is "lbfgs", which solves a linear model, and {wrong[0]}: set '
            'train.optimizer = "adam", or take recipe = "baseline"'
        )


def fit_baselines(trainer: Trainer, drawn: ScoredSamples) -> tuple[dict[str, Any], list[str]]:
    """The scores of every baseline by its name, and a note if one is better than the network.

    Args:
        trainer: its model has the selected state. Test labels are read for the scores alone.
        drawn: the samples of that state.
    """
    task, data = trainer.task, trainer.dataset.data
    if (
        type(task) not in (Classes, Gaussian)
        or trainer.loss != task.loss
        or trainer.ranks.size > 1
        or data.x.dim() != 2
    ):
        return {}, []
    scores, answers = dict[str, Any](), dict[str, Any]()
    for name, outputs in _without_weights(trainer):
        started = time.monotonic()
        scores[name], answers[name] = _scores_of(trainer, GivenOutputs(trainer, outputs()))
        scores[name]["seconds"] = round(time.monotonic() - started, 3)
    for name, orders in BASELINES[task.output].items():
        started = time.monotonic()
        other = _regression(trainer, orders)
        other.select()
        checkpoint.load_state(other.model, other.best)
        scores[name], answers[name] = _scores_of(trainer, ScoredSamples(other))
        scores[name]["seconds"] = round(time.monotonic() - started, 3)
    return scores, _notes(trainer, drawn, scores, answers)


class GivenOutputs(ScoredSamples):
    """Outputs for all nodes that no network has made, in the place of its samples."""

    def __init__(self, trainer: Trainer, outputs: Tensor) -> None:
        self.trainer = trainer
        self.rows = torch.unique(torch.cat([trainer.rows[part] for part in PARTS]))
        self._kept = [outputs[self.rows]]


def _regression(trainer: Trainer, orders: int) -> Trainer:
    from graphdrop.train.trainer import Trainer  # noqa: PLC0415 - which calls this module

    data = copy.copy(trainer.dataset.data)
    if "edge_attr" in data:
        del data.edge_attr  # which no regression reads
    dataset = replace(trainer.dataset, data=data)
    config = trainer.config
    given: dict[str, Any] = {
        "seed": config.seed,
        "data": config.data.model_dump(mode="json"),
        "objective": {"class_weights": config.objective.class_weights},
        "predict": config.predict.model_dump(mode="json") | LINEAR["predict"],
    }
    return Trainer(baseline_config(given, dataset, orders), dataset, progress=Mute())


def _without_weights(trainer: Trainer) -> Iterator[tuple[str, Any]]:
    """The baselines that have no weights: their names, and functions that make their outputs."""
    nodes, labels = len(trainer.data.x), trainer.targets[trainer.rows["train"]]
    if trainer.task.output == "gaussian":  # standardized: mean 0, logarithm of the variance 0
        outputs = 2 * as_columns(labels).shape[1]
        yield "always the mean", lambda: torch.zeros(nodes, outputs, device=trainer.data.x.device)
        return
    classes = trainer.dataset.num_classes
    counts = labels.bincount(minlength=classes).double()
    shares = ((counts + 1.0) / (counts + 1.0).sum()).float()
    yield "majority class", lambda: shares.log().expand(nodes, -1)
    yield "label propagation", lambda: _propagated_labels(trainer, labels, shares)


def _propagated_labels(trainer: Trainer, labels: Tensor, shares: Tensor) -> Tensor:
    """Logits of label propagation (Zhou et al., 2004), its damping chosen on validation nodes."""
    data, validation = trainer.data, trainer.rows["validation"]
    graph = Graph.from_data(data, normalization="sym")
    first = torch.zeros(len(data.x), len(shares), device=data.x.device)
    first[trainer.rows["train"]] = one_hot(labels, len(shares)).float()
    best, lowest = first, float("inf")
    for damping in DAMPINGS:
        state = first
        for _ in range(STEPS):
            state = damping * aggregate(graph, state) + (1.0 - damping) * first
        # a node that no label reaches has the shares of the classes
        mixed = state + 1e-3 * shares * state.sum(1, keepdim=True) + 1e-9 * shares
        logits = (mixed / mixed.sum(1, keepdim=True)).log()
        score = tempered_nll(logits[validation].softmax(1), trainer.targets[validation])
        if score < lowest:
            best, lowest = logits, score
    return best


def _scores_of(trainer: Trainer, drawn: ScoredSamples) -> tuple[dict[str, Any], Any]:
    """Scores of given outputs, calibrated as the network is, and their validation prediction."""
    rows, raw = trainer.rows, drawn.predict(trainer.rows["validation"], None)
    if trainer.config.predict.calibration == "none":
        return {
            n: trainer.scores(n, drawn.predict(rows[n], None)) for n in ("validation", "test")
        }, raw
    kind = calibrator_for(trainer.config.predict.calibration, trainer.task.output)
    kind = TemperatureScaling if kind.reads_graph else kind
    calibrator, halves = fit_calibrator(trainer, drawn, rows["calibration"], kind)
    if (
        halves is not None
        and trainer.task.output == "classes"
        and not trainer.config.data.calibration
    ):
        validation = out_of_fold(drawn, halves, rows["calibration"])
    else:
        validation = drawn.predict(rows["validation"], calibrator)
    test = trainer.scores("test", drawn.predict(rows["test"], calibrator))
    return {"validation": trainer.scores("validation", validation), "test": test}, raw


def _materialized(x: Any, graph: Graph, orders: int, rows: Tensor) -> Tensor:
    """The features of some nodes and their means, ``[rows, (orders + 1) * features]``."""
    found: list[list[Tensor]] = [[] for _ in range(orders + 1)]
    for first in range(0, x.shape[1], COLUMNS):
        last = min(first + COLUMNS, x.shape[1])
        dense = isinstance(x, Tensor)
        state = x[:, first:last].contiguous() if dense else x.columns(first, last).to_dense()
        found[0].append(state[rows])
        for order in range(orders):
            state = aggregate(graph, state)
            found[order + 1].append(state[rows])
    return torch.cat([part for parts in found for part in parts], 1)


def _hop_deviations(x: Any, graph: Graph, orders: int, rows: Tensor) -> Tensor:
    """The root mean variance of the features of some nodes after 0, 1, ... hops."""
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, (x.shape[1], DIRECTIONS), generator=generator) * 2.0 - 1.0
    state = x.matmul(signs.to(rows.device)).contiguous()
    found = [state[rows].var(0, correction=0).mean()]
    for _ in range(orders):
        state = aggregate(graph, state)
        found.append(state[rows].var(0, correction=0).mean())
    deviations: Tensor = (torch.stack(found) / x.shape[1]).sqrt().clamp_min(1e-6)
    return deviations


def _notes(
    trainer: Trainer, drawn: ScoredSamples, scores: dict[str, Any], answers: dict[str, Any]
) -> list[str]:
    """Notes on the best and the trivial baseline, if they are better beyond chance.

    Validation nodes decide that.
    """
    rows = trainer.rows["validation"]
    targets = trainer.targets[rows]
    own, better = drawn.predict(rows, None), dict[str, float]()
    generator = torch.Generator().manual_seed(0)
    few = torch.randperm(len(rows), generator=generator)[:NODES]
    resamples = [
        few[torch.randint(len(few), (len(few),), generator=generator)] for _ in range(RESAMPLES)
    ]
    base = _qualities(own, targets, [few, *resamples])
    for name, answer in answers.items():
        gains = _qualities(answer, targets, [few, *resamples]) - base
        if float(gains[0]) > 0.0 and float(gains[1:].quantile(CHANCE)) > 0.0:
            better[name] = float(gains[0])
    if not better:
        return []
    network = trainer.scores("test", drawn.predict(trainer.rows["test"]))
    metric = "rmse" if trainer.task.output == "gaussian" else "auroc"
    best = max(better, key=lambda one: better[one])
    notes = []
    for name in dict.fromkeys([best, *(one for one in TRIVIAL if one in better)]):
        found = scores[name]["test"]
        by = metric if metric in found else "accuracy"
        fitted = name in BASELINES[trainer.task.output]
        advice = ": take it, graphdrop train --baseline" if fitted else ""
        notes.append(
            f"{DESCRIPTIONS[name]} is better here than the network (test "
            f"{metrics_by_name()[by].title} {found[by]:.3g} against {network[by]:.3g}; chosen on "
            f"validation nodes){advice}"
        )
    return notes


def _qualities(answer: Any, targets: Tensor, parts: list[Tensor]) -> Tensor:
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
