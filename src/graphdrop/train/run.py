"""``Run``: what stays the same while a run trains, and ``prepare_run``, which makes it.

What changes is in ``State``. Functions of this package take the two, or parts of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphdrop.config import Config
from graphdrop.data import Dataset
from graphdrop.inference import predict
from graphdrop.inference.calibrator import Calibrator
from graphdrop.inference.predictive import PREDICTION_STEP, make_draws, resolve_settings
from graphdrop.io.devices import find_device
from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.nn.layerwise import layerwise_samples
from graphdrop.nn.methods import Blueprint, estimator, find, named_estimator
from graphdrop.nn.sampled import SampledModel, sampled
from graphdrop.sampling import EdgeFit, fit_edge_prior
from graphdrop.train.batches import MiniBatches
from graphdrop.train.objective import Objective, check_consistency
from graphdrop.train.ranks import Ranks
from graphdrop.train.run_dataset import fingerprint, reserve_calibration_nodes
from graphdrop.train.tasks import Task, choose_task

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Run:
    """The settings, the graph, the task and the network of a run; its fields are never reassigned.

    The weights in ``model`` change, and are part of the run's ``State``.
    """

    config: Config
    dataset: Dataset
    data: Data
    """The graph of the dataset, on the device of the run."""
    task: Task
    loss: Loss
    """The mean negative log-likelihood of outputs and targets."""
    targets: Tensor
    """The targets of all nodes, or of all pairs of nodes, in the unit of the data."""
    rows: dict[str, Tensor]
    """The indices of the targets in each part: train, validation, calibration, sets and test."""
    labels: Tensor
    """The targets of training as the network learns them: numbers are standardized."""
    model: Any
    own_model: bool
    """Whether the user built the model, and not ``config.model``."""
    engine: SampledModel
    """The model seen by its sampled layers: passes with given masks, drop rates, and the estimator
    of their gradients."""
    objective: Objective
    batches: MiniBatches | None
    """The mini-batches; ``None`` if every step is on all training nodes."""
    ranks: Ranks
    teacher: Tensor | None = None
    """The class probabilities of all nodes from which the network learns beside the labels."""

    @cached_property
    def fingerprint(self) -> str:
        """The checksum of the data, by which a resumed run knows that they are the same."""
        return fingerprint(self.dataset.data)

    @property
    def inputs(self) -> Data:
        """The graph with features as the network reads them."""
        return self.engine.defaults.inputs(self.data)

    @cached_property
    def layerwise(self) -> bool:
        """Whether predictions are computed layer by layer: with mini-batches, where possible.

        A model of the user's own whose layers cannot be told apart is predicted full batch, and so
        is an attached one whose own DropOut is sampled, and any model on a GPU.
        """
        if self.batches is None or self.batches.device.type != "cpu":
            return False
        try:
            layerwise_samples(self.engine, self.data, [])
        except (TypeError, ValueError):
            return False
        return True

    def predict(
        self,
        rows: Tensor,
        samples: int | None = None,
        calibrator: Calibrator | Literal["model"] | None = "model",
    ) -> Any:
        """Predict some nodes, or some of the task's links, with the current weights."""
        task = self.task
        return predict(
            self.model,
            self.data,
            samples,
            output=task.output,
            calibrator=calibrator,
            rows=rows if task.of_nodes else None,
            layerwise=self.layerwise,
            decode=None if task.of_nodes else lambda outputs: task.decode(outputs, rows),
        )

    def predictive_samples(self, rows: Tensor | None, first: int = 0) -> Iterator[Tensor]:
        """The outputs of the samples of a prediction on some nodes or all, from ``first`` on."""
        settings = resolve_settings(self.engine)
        draws = islice(make_draws(settings, PREDICTION_STEP), first, None)
        if self.layerwise:
            return layerwise_samples(self.engine, self.data, draws, rows, settings=settings)
        return self.engine.samples(self.inputs, draws, rows)

    def scores(self, part: str, answer: Any) -> Any:
        """The scores of a prediction of one part of the split."""
        return self.task.scores(answer, self.targets[self.rows[part]], self.config)

    def drop_rates(self) -> list[float | None]:
        """The expected drop rate of each layer; ``None`` for a layer that drops nothing."""
        return list(self.engine.drop_rates().values())

    def on_cpu(self) -> Run:
        """The same run on the CPU. Its model is moved; graph and targets are copied."""
        if self.targets.device.type == "cpu":
            return self
        data = self.dataset.data
        return replace(
            self,
            model=self.model.cpu(),
            data=data if data.edge_index.is_cpu else copy.copy(data).cpu(),
            targets=self.targets.cpu(),
            labels=self.labels.cpu(),
            rows={name: rows.cpu() for name, rows in self.rows.items()},
        )


def prepare_run(
    config: Config,
    dataset: Dataset,
    *,
    model: nn.Module | None = None,
    task: Task | None = None,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> Run:
    """Build the network, move it and the graph to the device, and check that they can be trained.

    Args:
        config: complete settings.
        dataset: the graph and its split.
        model: the user's model, in place of the one that the settings describe.
        task: what is predicted; by default what the targets' type and shape say.
        loss: in place of the task's.
        device: a device or its name; by default model and data stay where they are.
    """
    ranks = Ranks()
    data = dataset.data
    if device is not None and (device := find_device(device)) != data.x.device:
        data = copy.copy(data).to(device)  # a copy, since PyG moves the tensors of the Data itself
    task = task or choose_task(dataset, config)
    if config.objective.class_weights == "balanced":
        task = task.balance(dataset.data.y[dataset.split.train])
    check_consistency(config.objective, task)
    targets = task.targets(data).to(data.x.device)
    parts = reserve_calibration_nodes(task.parts(dataset.split), config)
    # The same tensors in every call: what was worked out for them is then found again.
    rows = {name: mask.nonzero().flatten().to(device) for name, mask in parts.items()}
    for name, members in rows.items():
        if not len(members):
            raise ValueError(f"the split of {dataset.name} has no {name} nodes: give another")

    # the network, by name or the user's, and the answers of the edge prior that teach it
    own_model, settings, teacher = model is not None, config.model, None
    if model is None:
        edges = dataset.graph.num_edges if find(settings.method).local else 0
        outputs = task.width(data, dataset.num_classes, settings.hidden)
        fit = fit_edges(config, dataset) if settings.edges == "fitted" else None
        prior = None if fit is None else fit.prior
        model = Blueprint(settings, int(data.x.shape[1]), outputs, edges, prior).build(config.seed)
        if fit is not None and config.objective.teach:
            missing = outputs - fit.answers.shape[1]
            teacher = torch.nn.functional.pad(fit.answers, (0, missing)).to(targets.device)
    model = model.to(device)
    engine = sampled(model)

    # what the network carries for its predictions: scales of features and targets, sizes of classes
    trained = targets[rows["train"]]
    own = engine.defaults  # as `attach` was told
    defaults = replace(
        PredictionDefaults.of(config),
        sample_dropout=own.sample_dropout,
        batch_statistics=own.batch_statistics,
    ).fit_moments(data.x, rows["train"])
    if loss is None:  # a loss of the user's own takes numbers as they are
        defaults = replace(defaults, target_moments=task.moments(trained))
    if task.output == "classes" and task.of_nodes:
        counts = trained.bincount(minlength=dataset.num_classes).tolist()
        defaults = replace(defaults, class_counts=counts)
    engine.defaults = defaults
    labels = defaults.standardize_targets(trained)

    name = config.train.estimator
    if name != "method":  # a user's own model may have any rates
        engine.estimator = (
            named_estimator(name, settings.temperature) if own_model else estimator(settings, name)
        )
    batches = None
    if config.train.batch_size:
        batches = MiniBatches(
            config, dataset.data, rows["train"], labels, task=task, model=engine, ranks=ranks
        )
    elif ranks.size > 1:
        raise ValueError(
            f"train.batch_size is 0, but there are {ranks.size} ranks; ranks divide "
            "mini-batches: give --batch-size, or start one process without torchrun"
        )
    return Run(
        config=config,
        dataset=dataset,
        data=data,
        task=task,
        loss=loss or task.loss,
        targets=targets,
        rows=rows,
        labels=labels,
        model=model,
        own_model=own_model,
        engine=engine,
        objective=Objective(config.objective, engine, len(labels)),
        batches=batches,
        ranks=ranks,
        teacher=teacher,
    )


def fit_edges(config: Config, dataset: Dataset) -> EdgeFit:
    """Fit the prior of the edges: labels of training nodes answer, validation nodes score.

    Trials and the run itself share the fit, which belongs to the dataset and the features.
    """
    parts = reserve_calibration_nodes(choose_task(dataset, config).parts(dataset.split), config)
    train, validation = (parts[name].nonzero().flatten() for name in ("train", "validation"))
    features, level, share = config.data.features, config.model.edge_level, config.data.calibration
    known, key = dataset.derived, ("edge fit", features, level, share)
    if key not in known:
        defaults = PredictionDefaults.of(config).fit_moments(dataset.data.x, train)
        known[key] = fit_edge_prior(
            defaults.inputs(dataset.data), conditioned=train, scored=validation, level=level
        )
    fit: EdgeFit = known[key]
    return fit
