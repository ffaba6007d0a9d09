"""``SampledLayer``: base class of layers with sampled connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from graphdrop.loading.batch import BatchGraph
from graphdrop.nn.inputs import Inputs
from graphdrop.sampling.estimators import Estimator
from graphdrop.sampling.samplers import Draw, DropOut, Sampler


class KeepsStream(nn.Module):
    """A module with its own random stream: a seed, and a step that counts the calls.

    Both are in a buffer, which is saved with the module. It stays on the CPU, because its numbers
    are read in every step.
    """

    stream: Tensor | None

    def start_stream(self, seed: int) -> None:
        """Start the stream of a seed at step 0."""
        self.register_buffer("stream", torch.tensor([seed & (2**63 - 1), 0]))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        stream = self.stream
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.stream = stream
        return self


class SampledLayer(KeepsStream):
    """A layer whose connections are sampled.

    A model with such layers is sampled, trained and saved through `graphdrop.nn.sampled`. The first
    layer has the model's ``estimator``. What the model carries for its answers is one object, its
    attribute ``defaults``.
    """

    number: int | None = None
    """The layer number of its draws; by default its position in the model."""

    def __init__(self) -> None:
        super().__init__()
        self.sampler: Sampler | None = None
        self.dropout: DropOut | None = None
        """An additional DropOut on the input of the layer."""
        self.estimator: Estimator | None = None
        """The gradient estimator of the whole model; in its first layer only."""
        self.temperature: float | None = None
        """The temperature of relaxed masks in training; ``None`` for hard masks."""
        self.inputs = Inputs()
        """The graphs and features of calls; of the whole model in its first layer."""
        self.description: dict[str, Any] | None = None
        """The arguments of ``attach`` as JSON, to repeat the call; in the first layer only."""
        self._asked: list[tuple[Draw | None, int]] = []  # innermost last; empty where nobody asks
        self._batches: list[BatchGraph] = []  # innermost last; empty outside of mini-batches

    @property
    def owner(self) -> nn.Module:
        """The module with the weights of the layer."""
        return self

    def weights_and_biases(self) -> tuple[list[Tensor], list[Tensor]]:
        """The weight matrices and bias vectors of the layer, without the parameters of rates."""
        rates = {id(p) for part in (self.sampler, self.dropout) if part for p in part.parameters()}
        own = [p for p in self.owner.parameters() if id(p) not in rates]
        return [p for p in own if p.dim() > 1], [p for p in own if p.dim() <= 1]

    def uninstall(self) -> None:
        """Remove the sampler from the layer that it is attached to."""
        raise ValueError(
            f"{type(self).__name__} was built with its sampler, which cannot be removed: build the "
            "model without it"
        )

    def ask(self, draw: Draw | None, number: int) -> None:
        """Use this draw, or the expected mask for ``None``, until ``stop_asking``."""
        self._asked.append((draw, number))

    def stop_asking(self) -> None:
        """End the effect of the last ``ask``."""
        self._asked.pop()

    def enter_batch(self, batch: BatchGraph) -> None:
        """Take the edges of calls for those of this mini-batch, until ``leave_batch``."""
        self._batches.append(batch)

    def leave_batch(self) -> None:
        """End the effect of the last ``enter_batch``."""
        self._batches.pop()

    @property
    def in_batch(self) -> BatchGraph | None:
        """The mini-batch that calls are given, or None."""
        return self._batches[-1] if self._batches else None

    def next_draw(self, *, training: bool) -> tuple[Draw | None, int]:
        """The draw of the pass that begins, and the layer's number in it.

        The draw of ``ask``; without one, the next draw in training and ``None`` in evaluation.
        """
        if self._asked:
            return self._asked[-1]
        number = self.number or 0
        if not training or self.stream is None:
            return None, number
        seed, step = self.stream.tolist()
        self.stream[1] += 1
        return Draw(seed, step, temperature=self.temperature), number
