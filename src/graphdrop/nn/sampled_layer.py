"""``SampledLayer``: what every layer that draws its connections has in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from graphdrop.estimators import Estimator
from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.samplers import Draw, DropOut, Sampler


class KeepsStream(nn.Module):
    """A module that names its own random streams: a seed, and a step that counts itself.

    Both are a buffer, saved with the module, which stays on the CPU wherever the module goes: a
    step reads it as numbers, and would otherwise wait for the device.
    """

    stream: Tensor | None

    def start_stream(self, seed: int) -> None:
        """Begin with step 0 of a seed."""
        self.register_buffer("stream", torch.tensor([seed & (2**63 - 1), 0]))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        stream = self.stream
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.stream = stream
        return self


class SampledLayer(KeepsStream):
    """A layer whose connections are drawn by a sampler.

    A model of such layers is sampled, trained and saved through `graphdrop.nn.sampled`. In a
    model's first layer stands what holds for the whole model: ``estimator``, ``defaults`` and what
    of it goes on in a Monte Carlo sample.
    """

    number: int | None = None
    """The number under which the layer draws; by default its place among the model's layers."""

    def __init__(self) -> None:
        super().__init__()
        self.sampler: Sampler | None = None
        self.dropout: DropOut | None = None
        """A DropOut on the layer's input, beside the sampler."""
        self.estimator: Estimator | None = None
        """How a gradient reaches the rates of the whole model; in its first layer only."""
        self.temperature: float | None = None
        """Training draws relaxed masks at this temperature; ``None`` draws hard ones."""
        self.defaults = PredictionDefaults()
        """How the whole model predicts; in its first layer only."""
        self.sample_dropout = False
        """Whether a Monte Carlo sample also draws the model's own DropOut; in its first layer."""
        self.batch_statistics = False
        """Whether BatchNorm uses a sample's own statistics; in the model's first layer."""
        self.description: dict[str, Any] | None = None
        """The call of ``attach`` as JSON, from which it can be made again; in the first layer."""
        self._asked: list[tuple[Draw | None, int]] = []  # innermost last; empty where nobody asks

    @property
    def owner(self) -> nn.Module:
        """The module that has the layer's weights."""
        return self

    def weights_and_biases(self) -> tuple[list[Tensor], list[Tensor]]:
        """The parameters of the layer, those of its rates left out: matrices, and vectors."""
        rates = {id(p) for part in (self.sampler, self.dropout) if part for p in part.parameters()}
        own = [p for p in self.owner.parameters() if id(p) not in rates]
        return [p for p in own if p.dim() > 1], [p for p in own if p.dim() <= 1]

    def uninstall(self) -> None:
        """Take the sampler out of the layer that it was put into."""
        raise ValueError(
            f"{type(self).__name__} was built with its sampler, which cannot be removed: build the "
            "model without it"
        )

    def ask(self, draw: Draw | None, number: int) -> None:
        """From now on use this draw, or the expectation, until ``stop_asking``."""
        self._asked.append((draw, number))

    def stop_asking(self) -> None:
        """End what the last ``ask`` began."""
        self._asked.pop()

    def next_draw(self, *, training: bool) -> tuple[Draw | None, int]:
        """The draw of a pass that begins, and the layer's number in it.

        It is what was asked for; else the next one in training, and in evaluation the expectation.
        """
        if self._asked:
            return self._asked[-1]
        number = self.number or 0
        if not training or self.stream is None:
            return None, number
        seed, step = self.stream.tolist()
        self.stream[1] += 1
        return Draw(seed, step, temperature=self.temperature), number
