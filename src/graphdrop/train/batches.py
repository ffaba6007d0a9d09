"""`MiniBatches`: the steps of an epoch of mini-batches, with weights that make them unbiased.

A step's NLL is a sum over the batch's labelled nodes. It is multiplied by the number of steps and
divided by the number of all labelled nodes, so that the mean over the steps of an epoch is the mean
over the labelled nodes, however unequal batches are. The consistency loss is weighed likewise over
all nodes. Several ranks divide the batches of an epoch among themselves.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.config import Config
from graphdrop.loading import NeighborLoader, WholeGraph
from graphdrop.loading.sampling import random_order
from graphdrop.loading.transfer import move_batches
from graphdrop.nn.features import SparseFeatures
from graphdrop.nn.models import GCN, prepare_features
from graphdrop.nn.sampled import SampledModel
from graphdrop.train.ranks import Ranks
from graphdrop.train.tasks import Task


class Step(NamedTuple):
    """One step: a batch whose first outputs are those of labelled nodes."""

    data: Data
    """Features are preprocessed, and edges those that were sampled."""
    labels: Tensor
    """The targets of the labelled nodes."""
    scale: float
    """The factor of the mean NLL over the batch's labelled nodes."""
    parts: list[tuple[slice, float]]
    """The consistency loss: runs of outputs, and the factor of the mean over each."""


class MiniBatches:
    """The mini-batches of a run.

    Args:
        config: all settings of the run.
        data: the whole graph.
        train: the numbers of the labelled nodes.
        labels: their targets, on the device of the run, to which batches are moved.
        task: what is predicted; it weighs targets.
        model: the network that is trained; its layers decide the number of hops.
        ranks: the processes that divide the batches.
    """

    def __init__(
        self,
        config: Config,
        data: Data,
        train: Tensor,
        labels: Tensor,
        *,
        task: Task,
        model: SampledModel,
        ranks: Ranks,
    ) -> None:
        settings = config.train
        if not task.of_nodes:
            raise ValueError(
                f"train.batch_size is {settings.batch_size}; {type(task).__name__} takes 0, "
                "because its targets are not nodes. Train full batch."
            )
        if not data.edge_index.is_cpu:  # batches are cut out on the CPU
            data = copy.copy(data).cpu()
        self.labels, self.task, self.ranks, self.seed = labels, task, ranks, config.seed
        self.device, self._model = labels.device, model
        self._size, self._labelled, self._nodes = settings.batch_size, len(train), data.num_nodes
        self._total = task.total_weight(labels)
        seeds = train.cpu()
        # the consistency loss and the teacher are also of nodes without a label
        self._every_node = bool(config.objective.agree or config.objective.teach)
        if self._every_node:
            unlabelled = torch.ones(self._nodes, dtype=torch.bool)
            unlabelled[seeds] = False
            seeds = torch.cat([seeds, unlabelled.nonzero().flatten()])
        self._features: Tensor | SparseFeatures | None = None
        if isinstance(model, GCN) and self.device.type == "cpu":
            self._features = prepare_features(model, data, model.defaults)
        layers = model.sampled_layers().values()
        samplers = [layer.sampler for layer in layers if layer.sampler is not None]
        whole = WholeGraph.from_data(data)
        whole.x = None
        if any(sampler.reads_edges for sampler in samplers):
            whole.x = model.defaults.inputs(data).x
        if self._features is not None:
            data = copy.copy(data)
            data.num_nodes, data.x = self._nodes, None
        fans = [int(count) for count in settings.fan_out.split(",")]
        hops = sum(max(1, int(getattr(layer.owner, "K", 1))) for layer in layers)
        self.loader = NeighborLoader(
            data,
            (fans + fans[-1:] * hops)[:hops],  # the last one counts for further hops
            seeds,
            sampler=settings.sampler,
            importance=settings.importance,
            batch_size=self._size,
            seed=self.seed,
            whole=whole,
        )
        self.batches = math.ceil(self._labelled / self._size)
        """The number of batches of an epoch, of all ranks together."""
        self.steps = math.ceil(self.batches / ranks.size)
        """The number of steps of an epoch: each rank has one batch in a step."""

    def epoch(self, number: int) -> Iterator[Step]:
        """The steps of one epoch, of this rank."""
        order = random_order(self._labelled, self.seed, number)
        others = np.empty(0, dtype=np.int64)
        if self._every_node:
            others = random_order(self._nodes - self._labelled, self.seed, number, which=1)
            others = others[: self.batches * self._size] + self._labelled
        steps = (self._make_step(number, i, order, others) for i in range(self.steps))
        yield from move_batches(steps, self.device, self._move)

    def _move(self, step: Step) -> Step:
        """The step on the device of the labels; its graph is cut out before it is sent."""
        if self.device.type == "cpu":
            return step
        data = step.data.pin_memory() if self.device.type == "cuda" else step.data
        data = data.to(self.device, non_blocking=True)
        if isinstance(self._model, GCN):
            data.graph.parts(self._model.normalization, len(self._model.layers))
        return step._replace(data=data)

    def _make_step(self, epoch: int, i: int, order: Any, others: Any) -> Step:
        """The step `i` of an epoch, for labelled nodes in this order and some of the others."""
        ranks, size = self.ranks.size, self._size
        batch, busy = i * ranks + self.ranks.number, min(ranks, self.batches - i * ranks)
        there = batch < self.batches
        # a rank without a batch takes part with nodes that do not count
        chosen = order[batch * size : (batch + 1) * size] if there else order[:size]
        # nodes without a label are divided by steps and then by ranks: one rank has the same
        more = others[i * len(others) // self.steps : (i + 1) * len(others) // self.steps]
        here = self.ranks.number if there else busy
        more = more[here * len(more) // busy : min(here + 1, busy) * len(more) // busy]
        data = self.loader.around(np.concatenate([chosen, more]), epoch * self.batches + batch)
        if isinstance(self._features, SparseFeatures):
            data.x = self._features.select(data.n_id)
        elif self._features is not None:
            data.x = self._features[data.n_id]
        else:
            data = self._model.defaults.inputs(data)
        labels = self.labels[torch.from_numpy(chosen).to(self.labels.device)]
        scale = self.steps * self.task.total_weight(labels) / self._total if there else 0.0
        parts: list[tuple[slice, float]] = []
        if self._every_node:
            labelled, per_node = len(chosen), self.steps / self._nodes if there else 0.0
            parts.append((slice(0, labelled), per_node * labelled))
            if len(more):  # which stand for all nodes without a label
                stands_for = (self._nodes - self._labelled) / len(others)
                part = slice(labelled, labelled + len(more))
                parts.append((part, per_node * len(more) * stands_for))
        return Step(data, labels, scale, parts)
