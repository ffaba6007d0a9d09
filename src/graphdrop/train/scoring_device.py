"""`on_cpu`: a run's selected state is calibrated and scored on the CPU, wherever it was trained.

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
    own = trainer.dataset.data
    trainer.model.cpu()
    trainer.data = own if own.edge_index.is_cpu else copy.copy(own).cpu()
    trainer.targets = targets.cpu()
    trainer.rows = {name: part.cpu() for name, part in rows.items()}
    try:
        yield
    finally:
        trainer.data, trainer.targets, trainer.rows = data, targets, rows
        trainer.model.to(device)
