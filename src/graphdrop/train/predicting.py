"""Predictions during and after training: full batch, or layer by layer if batches are small."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from graphdrop.inference import predict
from graphdrop.inference.calibrator import Calibrator
from graphdrop.inference.draws import PREDICTION_STEP, draws_of, settled
from graphdrop.nn.layerwise import layerwise_samples

if TYPE_CHECKING:
    from graphdrop.train.trainer import Trainer


def predict_rows(
    trainer: Trainer,
    rows: Tensor,
    samples: int | None = None,
    calibrator: Calibrator | Literal["model"] | None = "model",
) -> Any:
    """Predict some nodes, or some of the task's links, with the current state."""
    task = trainer.task
    return predict(
        trainer.model,
        trainer.data,
        samples,
        output=task.output,
        calibrator=calibrator,
        rows=rows if task.of_nodes else None,
        layerwise=trainer.layerwise,
        decode=None if task.of_nodes else lambda outputs: task.decode(outputs, rows),
    )


def is_layerwise(trainer: Trainer) -> bool:
    """Whether predictions are computed layer by layer: with mini-batches, where that is possible.

    A model of a user's own, whose layers cannot be told apart, is predicted full batch, and so is
    an attached one whose own DropOut is sampled, and any model on a GPU.
    """
    if trainer.batches is None or trainer.batches.device.type != "cpu":
        return False
    layers = trainer.engine.sampled_layers().values()
    if any(layer.sample_dropout or layer.batch_statistics for layer in layers):
        return False  # which act on all nodes at once
    try:
        layerwise_samples(trainer.engine, trainer.data, [])
    except (TypeError, ValueError):
        return False
    return True


def predictive_samples(trainer: Trainer, rows: Tensor | None, first: int = 0) -> Iterator[Tensor]:
    """The outputs of every sample from `first` on of a prediction on some nodes, or on all."""
    engine = trainer.engine
    settings = settled(engine)
    draws = islice(draws_of(settings, PREDICTION_STEP), first, None)
    if trainer.layerwise:
        return layerwise_samples(engine, trainer.data, draws, rows, settings=settings)
    return engine.samples(trainer.inputs, draws, rows)
