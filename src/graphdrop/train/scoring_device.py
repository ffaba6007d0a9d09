"""`on_cpu`: a run's selected state is calibrated and scored on the CPU, wherever it was trained.

`to_cpu` leaves it there, for the measures of an experiment.

Calibrators and metrics compute in float64, which not every device has, and are quick. The masks of
the last predictions are the same on the CPU.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdrop.train.trainer import Trainer


@contextmanager
def on_cpu(trainer: Trainer) -> Iterator[None]:
    """Context in which a trainer's model and data are on the CPU; they return afterwards."""
    device = trainer.targets.device
    if device.type == "cpu":
        yield
        return
    data, targets, rows = trainer.data, trainer.targets, trainer.rows
    to_cpu(trainer)
    try:
        yield
    finally:
        trainer.data, trainer.targets, trainer.rows = data, targets, rows
        trainer.model.to(device)


def to_cpu(trainer: Trainer) -> None:
    """Move a trainer's model, data and what it has noted to the CPU."""
    if trainer.targets.device.type == "cpu":
        return
    own = trainer.dataset.data
    trainer.model.cpu()
    trainer.data = own if own.edge_index.is_cpu else copy.copy(own).cpu()
    trainer.targets = trainer.targets.cpu()
    trainer.rows = {name: part.cpu() for name, part in trainer.rows.items()}
    trainer.right = [one.cpu() for one in trainer.right]
