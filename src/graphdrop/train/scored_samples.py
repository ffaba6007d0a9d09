"""``ScoredSamples``: the samples of the selected state, drawn once for all that is made of them.

Scores with and without a calibrator, its fits on halves of the validation nodes, the floor of the
calibration error and prediction sets all read the same samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from graphdrop.inference.calibration import Calibrator, Samples, from_json
from graphdrop.inference.calibration.base import KEPT_NUMBERS
from graphdrop.inference.draws import settled
from graphdrop.inference.predictive import origin_of, summarised
from graphdrop.train.predicting import predictive_samples

if TYPE_CHECKING:
    from graphdrop.train.trainer import Trainer

PARTS = ("validation", "calibration", "sets", "test")


class ScoredSamples:
    """The outputs of every Monte Carlo sample on the nodes that are scored, in memory if few.

    Args:
        trainer: its model has the selected state. Of links, and where the samples are too many,
            nothing is kept, and every call draws them again.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self._rows = torch.unique(torch.cat([trainer.rows[part] for part in PARTS]))
        self._kept = self._drawn() if trainer.task.of_nodes else None

    def _drawn(self) -> list[Tensor] | None:
        kept, numbers = list[Tensor](), 0
        for one in self._draw(self._rows):
            kept.append(one)
            numbers += one.numel()
            if numbers > KEPT_NUMBERS:
                return None
        return kept

    @torch.no_grad()
    def _draw(self, rows: Tensor) -> Iterator[Tensor]:
        trainer, task = self.trainer, self.trainer.task
        for out in predictive_samples(trainer, rows if task.of_nodes else None):
            yield out if task.of_nodes else task.decode(out, rows)

    def of(self, rows: Tensor) -> Samples:
        """A function that returns the outputs of every sample on some rows."""
        if self._kept is None or not bool(torch.isin(rows, self._rows).all()):
            return lambda: self._draw(rows)
        kept, places = self._kept, torch.searchsorted(self._rows, rows)
        return lambda: (one[places] for one in kept)

    def predict(
        self, rows: Tensor, calibrator: Calibrator | Literal["model"] | None = "model"
    ) -> Any:
        """What ``Trainer.predict`` returns for these rows."""
        trainer = self.trainer
        settings = settled(trainer.engine)
        chosen = from_json(settings.calibration) if calibrator == "model" else calibrator
        if self._kept is None or (chosen is not None and chosen.reads_graph):
            return trainer.predict(rows, calibrator=chosen)
        origin = origin_of(settings, trainer.data, rows)
        return summarised(self.of(rows), trainer.task.output, settings, chosen, origin)
