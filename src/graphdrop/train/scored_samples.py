"""``ScoredSamples``: the samples of the selected state, drawn once for all that is made of them.

Scores with and without a calibrator, its fits on halves of the validation nodes, the floor of the
calibration error and prediction sets all read the same samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from graphdrop.inference.calibrator import KEPT_NUMBERS, Calibrator, Samples
from graphdrop.inference.passes import resolve_settings
from graphdrop.inference.predictive import find_origin, summarize
from graphdrop.train.run import Run

PARTS = ("validation", "calibration", "sets", "test")


class ScoredSamples:
    """The outputs of every Monte Carlo sample on the nodes that are scored, in memory if few.

    Their nodes are all of the graph, so that the standard error of every answer is known, or, where
    that takes too many numbers or batches, those of the parts that are scored.

    Args:
        run: its model has the selected state. Of links, and where the samples are too many,
            nothing is kept, and every call draws them again.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.rows = torch.unique(torch.cat([run.rows[part] for part in PARTS]))
        task, settings, nodes = run.task, run.config, len(run.data.x)
        width = task.width(run.data, run.dataset.num_classes, settings.model.hidden)
        many = nodes * width * settings.predict.samples > KEPT_NUMBERS
        if task.of_nodes and run.batches is None and not many:
            self.rows = torch.arange(nodes, device=self.rows.device)
        self._kept: list[Tensor] | None = [] if run.task.of_nodes else None
        self._keep_missing()

    def extend(self, samples: int) -> None:
        """Let the model predict with so many samples, and draw those that are missing."""
        engine = self.run.engine
        engine.defaults = replace(engine.defaults, samples=samples)
        self._keep_missing()

    def _keep_missing(self) -> None:
        if self._kept is None:
            return
        for out in self._draw(self.rows, first=len(self._kept)):
            self._kept.append(out)
            if len(self._kept) * out.numel() > KEPT_NUMBERS:
                self._kept = None
                return

    @torch.no_grad()
    def _draw(self, rows: Tensor, first: int = 0) -> Iterator[Tensor]:
        run, task = self.run, self.run.task
        for out in run.predictive_samples(rows if task.of_nodes else None, first):
            yield out if task.of_nodes else task.decode(out, rows)

    def of(self, rows: Tensor) -> Samples:
        """A function that returns the outputs of every sample on some rows."""
        if self._kept is None or not bool(torch.isin(rows, self.rows).all()):
            return lambda: self._draw(rows)
        kept, places = self._kept, torch.searchsorted(self.rows, rows)
        return lambda: (sample[places] for sample in kept)

    def predict(
        self, rows: Tensor, calibrator: Calibrator | Literal["model"] | None = "model"
    ) -> Any:
        """What ``Run.predict`` returns for these rows."""
        run = self.run
        settings = resolve_settings(run.engine)
        chosen = settings.calibrator if calibrator == "model" else calibrator
        if self._kept is None or (chosen is not None and chosen.reads_graph):
            return run.predict(rows, calibrator=chosen)
        origin = find_origin(settings, run.data, rows)
        return summarize(self.of(rows), run.task.output, settings, chosen, origin)
