"""``SampledModel``: the interface of models with sampled connections, and ``Handle``.

``GCN`` implements it. Any other module with sampled layers, such as a PyG model after ``attach`` or
a module with ``SampledGCNConv`` layers, has it through its ``Handle``.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from graphdrop.graph import Graph, Normalization
from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.nn.features import Features, SparseFeatures
from graphdrop.nn.inputs import Inputs, batch_graph, needed_batch_graph
from graphdrop.nn.sampled_layer import SampledLayer
from graphdrop.nn.state import call, evaluate_modules, restore_buffers, seed_by
from graphdrop.sampling.estimators import Estimator
from graphdrop.sampling.samplers import Draw, UsedMask

NAME = "graphdrop"
"""The attribute of an attached layer that has its sampler, also in state dicts."""

one_at_a_time = threading.RLock()
"""A pass in evaluation changes the modes of a model."""


class Estimate(NamedTuple):
    """A differentiable loss, and the masks of its first pass."""

    loss: Tensor
    tape: list[UsedMask]
    """The masks of the first pass, with the numbers of their layers."""


class SampledModel(ABC):
    """Base class of models with sampled connections."""

    estimator: Estimator | None
    """The gradient estimator; ``None`` if all rates are fixed."""
    defaults: PredictionDefaults
    """The default arguments of ``predict``."""

    @property
    @abstractmethod
    def module(self) -> nn.Module:
        """The module, with its parameters and state."""

    @abstractmethod
    def sampled_layers(self) -> dict[str, SampledLayer]:
        """The sampled layers by their name in the module."""

    @abstractmethod
    def next_draw(self) -> Draw:
        """The draw of the next training step; the step counter is saved with the model."""

    @abstractmethod
    def samples(
        self,
        data: Any,
        draws: Iterable[Draw | None],
        rows: Tensor | None = None,
        *,
        training: bool = False,
    ) -> Iterator[Tensor]:
        """The outputs of several passes, one by one; ``None`` in ``draws`` gives expected masks.

        Args:
            data: a PyG ``Data`` with preprocessed features. Of a mini-batch, which has ``n_id``,
                the outputs are those of its seed nodes.
            draws: the draw of each pass.
            rows: the nodes whose outputs are wanted, by number or as a bool mask; all by default.
            training: whether the model's own DropOut and BatchNorm work as in training.
        """

    @abstractmethod
    def drawing(self, draw: Draw | None) -> AbstractContextManager[None]:
        """Context in which calls use this draw, or the expected masks for ``None``."""

    @abstractmethod
    def batch(self, batch: Any) -> AbstractContextManager[None]:
        """Context in which calls are given a mini-batch, a PyG ``Data`` with ``n_id``.

        Masks are then drawn by the ids of nodes in the whole graph, and edges are weighed as in the
        whole graph. ``samples``, and thereby ``predict``, recognize a batch by its ``n_id``.
        """

    def numbered_layers(self) -> list[tuple[int, SampledLayer]]:
        """The sampled layers with their numbers."""
        layers = enumerate(self.sampled_layers().values())
        return [(n if layer.number is None else layer.number, layer) for n, layer in layers]

    def kl(self) -> Tensor:
        """The sum of the KL terms of all learned rates; 0 if there is none."""
        total = torch.zeros((), device=next(self.module.parameters()).device)
        for layer in self.sampled_layers().values():
            if layer.sampler is not None:
                total = total + layer.sampler.rate.kl()
        return total

    @property
    def reads_edges(self) -> bool:
        """Whether rates are computed from edges, which ``show_edges`` sets."""
        layers = self.sampled_layers().values()
        return any(layer.sampler is not None and layer.sampler.reads_edges for layer in layers)

    def show_edges(self, inputs: Inputs, graph: Graph, x: Features | None) -> None:
        """Set the edges of samplers whose rates are computed from them, with those of a graph."""
        if not self.reads_edges:
            return
        if x is None:
            raise ValueError(
                "the rates are computed from the features of both ends of an edge, and the batch "
                "knows those of its own nodes alone: use graphdrop.loading.NeighborLoader, or "
                "WholeGraph.from_data(data)"
            )
        samplers = [layer.sampler for layer in self.sampled_layers().values() if layer.sampler]
        # every layer has a copy of one rate, and all copies read the same of an edge
        edges = inputs.edges(graph, x, samplers[0].rate)
        for sampler in samplers:
            sampler.observe(edges)

    @torch.no_grad()
    def drop_rates(self) -> dict[str, float | None]:
        """The expected drop rate of each layer: of its sampler, or of its DropOut, or None."""
        rates: dict[str, float | None] = {}
        for name, layer in self.sampled_layers().items():
            sampler = layer.sampler or layer.dropout
            unseen = sampler is not None and 0 in sampler.rate.entries  # no edges yet
            keep = None if sampler is None or unseen else sampler.rate.mean().flatten()
            rates[name] = None if keep is None else 1.0 - float(keep.mean())
        return rates

    def estimate(self, compute: Callable[[Sequence[Draw]], Tensor], passes: int = 1) -> Estimate:
        """A loss whose backward pass gives weights and rates their gradients.

        Args:
            compute: computes a loss with given draws; it is called as often as the estimator needs,
                and must not use other random numbers.
            passes: the number of draws, independent samples of one step.
        """
        draw, tapes = self.next_draw(), list[list[list[UsedMask]]]()

        def run(antithetic: bool) -> tuple[Tensor, list[UsedMask]]:
            own: list[list[UsedMask]] = [[] for _ in range(passes)]
            tapes.append(own)
            draws = [
                replace(draw, sample=sample, antithetic=antithetic, tape=tape)
                for sample, tape in enumerate(own)
            ]
            with self._another_pass(first=len(tapes) == 1):
                loss = compute(draws)
            return loss, [drawn for tape in own for drawn in tape]

        estimator = self.estimator
        loss = run(antithetic=False)[0] if estimator is None else estimator.loss(run)
        return Estimate(loss, tapes[0][0])

    def loss(self, closure: Callable[[], Tensor]) -> Tensor:
        """A loss whose backward pass gives weights and rates their gradients.

        Args:
            closure: computes the loss of one pass through the module, and calls no ``backward``;
                it is called as often as the estimator needs.
        """

        def compute(draws: Sequence[Draw]) -> Tensor:
            with self.drawing(draws[0]):
                return closure()

        return self.estimate(compute).loss

    def backward(self, closure: Callable[[], Tensor]) -> Tensor:
        """Call ``backward`` on ``loss(closure)``; returns the loss of the first pass."""
        loss = self.loss(closure)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    @contextmanager
    def _another_pass(self, *, first: bool) -> Iterator[None]:  # noqa: ARG002
        """Context of one pass: buffers that a further pass would change are restored."""
        yield


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
        defaults = (own for own in carried if isinstance(own, PredictionDefaults))
        return next(defaults, PredictionDefaults())

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
            stack.enter_context(seed_by(draw))
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
        if not self.reads_edges:
            return
        batch = batch_graph(data)
        x: Features | None = data.x if batch is None else batch.whole.x
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
                chance, defaults = draw is not None and not draw.keeps_all, self.defaults
                modes = evaluate_modules(
                    self.model,
                    dropout=chance and defaults.sample_dropout,
                    batch_statistics=chance and defaults.batch_statistics,
                )
                with one_at_a_time, modes, self.drawing(draw):
                    out = self.call(data)
            yield out if rows is None else out[rows]

    @contextmanager
    def _another_pass(self, *, first: bool) -> Iterator[None]:
        if first:
            yield
            return
        with restore_buffers(self.model):
            yield

    def __repr__(self) -> str:
        rates = self.drop_rates().items()
        shown = ", ".join(f"{n}: {'-' if r is None else f'{r:.3g}'}" for n, r in rates)
        return f"{type(self).__name__}({type(self.model).__name__}, drop rates {{{shown}}})"


def sampled(model: nn.Module) -> SampledModel:
    """The ``SampledModel`` of a module; of a compiled module, that of the original."""
    model = getattr(model, "_orig_mod", model)
    return model if isinstance(model, SampledModel) else Handle(model)


@contextmanager
def layer_inputs(model: SampledModel) -> Iterator[list[Tensor]]:
    """Context in which the outputs of hidden layers are recorded.

    They are the inputs of the next layers, after the activation.
    """
    noted: list[Tensor] = []
    hooks = [
        layer.owner.register_forward_pre_hook(
            lambda _, given, named: noted.append(given[0] if given else named["x"]),
            with_kwargs=True,
        )
        for layer in list(model.sampled_layers().values())[1:]
    ]
    try:
        yield noted
    finally:
        for hook in hooks:
            hook.remove()
