"""``SampledModel``: the interface of models with sampled connections.

``GCN`` implements it. Any other module with sampled layers, such as a PyG model after ``attach`` or
a module with ``SampledGCNConv`` layers, has it through its ``Handle``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from graphdrop.graph import Graph
from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.nn.features import SparseFeatures
from graphdrop.nn.inputs import Inputs
from graphdrop.nn.sampled_layer import SampledLayer
from graphdrop.sampling.estimators import Estimator
from graphdrop.sampling.samplers import Draw, UsedMask


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

    def show_edges(self, inputs: Inputs, graph: Graph, x: Tensor | SparseFeatures | None) -> None:
        """Set the edges of samplers whose rates are computed from them, with those of a graph."""
        samplers = [one.sampler for one in self.sampled_layers().values() if one.sampler]
        if not any(sampler.reads_edges for sampler in samplers):
            return
        if x is None:
            raise ValueError(
                "the rates are computed from the features of both ends of an edge, and the batch "
                "knows those of its own nodes alone: use graphdrop.loading.NeighborLoader, or "
                "WholeGraph.from_data(data)"
            )
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


def sampled(model: nn.Module) -> SampledModel:
    """The ``SampledModel`` of a module; of a compiled module, that of the original."""
    from graphdrop.nn.handle import Handle  # noqa: PLC0415 - it builds on what stands here

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
