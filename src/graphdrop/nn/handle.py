"""``Handle``: the sampled layers of any module, for prediction and training."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from graphdrop.graph import Normalization
from graphdrop.nn.batches import batch_graph, needed_batch_graph
from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.nn.features import SparseFeatures
from graphdrop.nn.sampled import SampledModel
from graphdrop.nn.sampled_layer import SampledLayer
from graphdrop.nn.state import buffers_kept, call, predicting, seeded
from graphdrop.sampling.estimators import Estimator
from graphdrop.sampling.samplers import Draw

NAME = "graphdrop"
"""The attribute of an attached layer that has its sampler, also in state dicts."""

one_at_a_time = threading.RLock()
"""A pass in evaluation changes the modes of a model."""


class Handle(SampledModel):
    """The sampled layers of a module. It has no state: a copy of the module has its own handle.

    Args:
        model: a module that ``attach`` was called on, or one that has layers such as
            ``SampledGCNConv`` in it.
    """

    def __init__(self, model: nn.Module) -> None:
        found = [(n, m) for n, m in model.named_modules() if isinstance(m, SampledLayer)]
        if not found:
            raise ValueError(
                f"{type(model).__name__} has no layer that samples its connections: call "
                "attach(model, sampler), or build it with graphdrop.nn.SampledGCNConv"
            )
        self.model = model
        self.layers = {name.removesuffix(NAME).removesuffix("."): m for name, m in found}
        """The sampled layers by their name in the module."""
        if len({number for number, _ in self.numbered_layers()}) < len(found):
            raise ValueError(
                f"{type(model).__name__} has layers that were attached apart or copied, whose "
                "draws would be the same: remove() them, and attach to the whole model at once"
            )
        self._first = found[0][1]

    @property
    def module(self) -> nn.Module:
        """The module itself."""
        return self.model

    def sampled_layers(self) -> dict[str, SampledLayer]:
        """The layers that draw, by their name in the module."""
        return self.layers

    @property
    def estimator(self) -> Estimator | None:
        """The gradient estimator, stored in the first sampled layer."""
        return next((m.estimator for m in self.layers.values() if m.estimator is not None), None)

    @estimator.setter
    def estimator(self, estimator: Estimator | None) -> None:
        for layer in self.layers.values():
            layer.estimator = estimator if layer is self._first else None
            layer.temperature = None if estimator is None else estimator.temperature

    @property
    def defaults(self) -> PredictionDefaults:
        """What the model carries for its answers, as its attribute ``defaults``."""
        carried = (part.__dict__.get("defaults") for part in self.model.modules())
        known = (one for one in carried if isinstance(one, PredictionDefaults))
        return next(known, PredictionDefaults())

    @defaults.setter
    def defaults(self, defaults: PredictionDefaults) -> None:
        own = getattr(self.model, "defaults", defaults)
        if not isinstance(own, PredictionDefaults):
            raise ValueError(
                f"{type(self.model).__name__}.defaults is a {type(own).__name__}; graphdrop keeps "
                "there what the model carries for its answers. Give that attribute another name."
            )
        self.model.defaults = defaults  # type: ignore[assignment]

    def parameters(self) -> Iterator[nn.Parameter]:
        """The parameters of the rates; ``model.parameters()`` contains them, too."""
        for layer in self.layers.values():
            if layer.sampler is not None:
                yield from layer.sampler.parameters()

    def remove(self) -> None:
        """Remove the sampler from every attached layer; trained weights stay."""
        for layer in self.layers.values():
            layer.uninstall()
        self.layers = {}

    def next_draw(self) -> Draw:
        """The draw of the next training step; the step counters are saved with the layers."""
        streams = [layer.stream for layer in self.layers.values() if layer.stream is not None]
        seed, _ = streams[0].tolist()
        step = max(int(stream[1]) for stream in streams)
        for stream in streams:
            stream[1] = step + 1
        estimator = self.estimator
        return Draw(seed, step, temperature=None if estimator is None else estimator.temperature)

    @contextmanager
    def drawing(self, draw: Draw | None) -> Iterator[None]:
        """Context in which passes use this draw, or the expected masks for ``None``.

        The model's own DropOut is seeded by it, too: the same draw gives the same output.
        """
        with ExitStack() as stack:
            stack.enter_context(seeded(draw))
            for number, layer in self.numbered_layers():
                layer.ask(draw, number)
                stack.callback(layer.stop_asking)
            yield

    @contextmanager
    def batch(self, batch: Any) -> Iterator[None]:
        """Context in which calls are given this mini-batch, a PyG ``Data`` with ``n_id``.

        The outputs of the model are those of all nodes of the batch; those of its seeds, the first
        ``batch_size``, count.
        """
        graph = needed_batch_graph(batch)
        with ExitStack() as stack:
            for layer in self.layers.values():
                layer.enter_batch(graph)
                stack.callback(layer.leave_batch)
            yield

    def observe(self, data: Any) -> None:
        """Compute rates that depend on edges, such as an `EdgeRate`, from a graph.

        Predictions and the trainer do it. In a loop of your own, call it before the first step.

        Args:
            data: a PyG ``Data`` with the features of all nodes, or a mini-batch.
        """
        if not any(one.sampler and one.sampler.reads_edges for one in self.layers.values()):
            return
        batch = batch_graph(data)
        x: Tensor | SparseFeatures | None = data.x if batch is None else batch.whole.x
        if batch is not None:
            graph = batch.whole.graph(Normalization.SYM)
        else:
            weight = getattr(data, "edge_weight", None)
            if isinstance(x, Tensor) and x.layout is not torch.strided:
                x = SparseFeatures.from_tensor(x)
            graph = self._first.inputs.graph(
                data.edge_index, weight, data.x.shape[0], Normalization.SYM
            )
        self.show_edges(self._first.inputs, graph, x)

    def call(self, data: Any) -> Tensor:
        """The model's output on a PyG ``Data``, whose attributes are the arguments of forward."""
        graph = batch_graph(data)
        if graph is None:
            return call(self.model, data)
        with self.batch(data):
            return call(self.model, data)[: graph.num_outputs]

    def samples(
        self,
        data: Any,
        draws: Iterable[Draw | None],
        rows: Tensor | None = None,
        *,
        training: bool = False,
    ) -> Iterator[Tensor]:
        """The outputs on a PyG ``Data`` of several draws, one by one.

        In evaluation the options of ``attach`` for DropOut and BatchNorm apply to draws; the
        expectation, ``None``, is deterministic.
        """
        self.observe(data)
        for draw in draws:
            if training:
                with self.drawing(draw):
                    out = self.call(data)
            else:
                chance = draw is not None and not draw.keeps_all
                modes = predicting(
                    self.model,
                    dropout=chance and self._first.sample_dropout,
                    batch_statistics=chance and self._first.batch_statistics,
                )
                with one_at_a_time, modes, self.drawing(draw):
                    out = self.call(data)
            yield out if rows is None else out[rows]

    @contextmanager
    def _another_pass(self, *, first: bool) -> Iterator[None]:
        if first:
            yield
            return
        with buffers_kept(self.model):
            yield

    def __repr__(self) -> str:
        rates = self.drop_rates().items()
        shown = ", ".join(f"{n}: {'-' if r is None else f'{r:.3g}'}" for n, r in rates)
        return f"{type(self).__name__}({type(self.model).__name__}, drop rates {{{shown}}})"
