"""``SampledModel``: what prediction, training and reports know of a model with random connections.

``GCN`` meets it by itself. Any other module with sampled layers in it, a PyG model that ``attach``
was called on or a module with ``SampledGCNConv`` layers, meets it through its ``Handle``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from graphdrop.estimators import Estimator
from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.nn.sampled_layer import SampledLayer
from graphdrop.samplers import Draw, Drawn
from graphdrop.util.ordered import ordered_sum


class Estimate(NamedTuple):
    """A loss to be differentiated, and what its first pass drew."""

    loss: Tensor
    tape: list[Drawn]
    """Every mask of that pass, with the number of the layer that it belongs to."""


class SampledModel(ABC):
    """A model whose connections are drawn anew in every pass."""

    estimator: Estimator | None
    """How a gradient reaches the rates; ``None`` where they are fixed."""
    defaults: PredictionDefaults
    """How the model predicts unless ``predict`` is told otherwise."""

    @property
    @abstractmethod
    def module(self) -> nn.Module:
        """The module itself, with its parameters and its state."""

    @abstractmethod
    def sampled_layers(self) -> dict[str, SampledLayer]:
        """The layers that draw, by their name in the module."""

    @abstractmethod
    def next_draw(self) -> Draw:
        """The draw of the next training step; the step is saved with the model."""

    @abstractmethod
    def samples(
        self,
        data: Any,
        draws: Iterable[Draw | None],
        rows: Tensor | None = None,
        *,
        training: bool = False,
    ) -> Iterator[Tensor]:
        """The outputs of several passes, one by one; ``None`` among the draws is the expectation.

        Args:
            data: a PyG ``Data`` with the features that the network takes.
            draws: which random numbers each pass uses.
            rows: the nodes whose outputs are wanted, by number or as a bool mask; all by default.
            training: let DropOut and BatchNorm of the model's own work as in training.
        """

    @abstractmethod
    def drawing(self, draw: Draw | None) -> AbstractContextManager[None]:
        """Within it, calls of the module use this draw, or for ``None`` the expectation."""

    def numbered_layers(self) -> list[tuple[int, SampledLayer]]:
        """The layers that draw, with the numbers under which they do."""
        layers = enumerate(self.sampled_layers().values())
        return [(n if layer.number is None else layer.number, layer) for n, layer in layers]

    def kl(self) -> Tensor:
        """What the learned rates of all layers add to the objective; 0 where none is learned."""
        total = torch.zeros((), device=next(self.module.parameters()).device)
        for layer in self.sampled_layers().values():
            if layer.sampler is not None:
                total = total + layer.sampler.rate.kl()
        return total

    @torch.no_grad()
    def drop_rates(self) -> dict[str, float | None]:
        """The expected drop rate of each layer: of its sampler, else of its DropOut, else None."""
        rates: dict[str, float | None] = {}
        for name, layer in self.sampled_layers().items():
            sampler = layer.sampler or layer.dropout
            keep = None if sampler is None else sampler.rate.mean().flatten()
            rates[name] = None if keep is None else 1.0 - float(ordered_sum(keep) / len(keep))
        return rates

    def estimate(self, compute: Callable[[Sequence[Draw]], Tensor], passes: int = 1) -> Estimate:
        """A loss whose backward pass gives weights and rates their gradients.

        Args:
            compute: makes a loss from passes with the draws that it is given; it is called as often
                as the estimator needs, and must use no other random numbers.
            passes: how many draws it is given: independent samples of the same step.
        """
        draw, tapes = self.next_draw(), list[list[list[Drawn]]]()

        def run(antithetic: bool) -> tuple[Tensor, list[Drawn]]:
            own: list[list[Drawn]] = [[] for _ in range(passes)]
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
        """``loss``, differentiated; returns the loss of the first pass."""
        loss = self.loss(closure)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    @contextmanager
    def _another_pass(self, *, first: bool) -> Iterator[None]:  # noqa: ARG002
        """Around each pass of a step: what further passes must not leave behind is undone."""
        yield


def sampled(model: nn.Module) -> SampledModel:
    """A module as prediction and training know it; one that was compiled counts as itself."""
    from graphdrop.nn.handle import Handle  # noqa: PLC0415 - it builds on what stands here

    model = getattr(model, "_orig_mod", model)
    return model if isinstance(model, SampledModel) else Handle(model)


@contextmanager
def layer_inputs(model: SampledModel) -> Iterator[list[Tensor]]:
    """Within it, passes note down what each hidden layer gives to the next.

    What a layer takes is what the one before gave, after its activation.
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
