"""``reproduce sets``: coverage and size of prediction sets over random calibration nodes.

One network is trained by the default settings. Its test nodes, which nothing was chosen by, are
divided at random many times, half to calibrate the sets on and half to count on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from graphdrop.config import Config
from graphdrop.inference import predict
from graphdrop.inference.sets import (
    NEIGHBORS,
    SetMethod,
    feature_neighbors,
    find_thresholds,
    score_classes,
)

if TYPE_CHECKING:
    from graphdrop.train import Trainer

COVERAGE = 0.9
KINDS = {"all": False, "by_class": True}
"""One threshold, or one for every class."""
Counts = tuple[Tensor, Tensor, Tensor]
"""Of every node: whether its set holds its class, the size of its set, its class."""


class Covered(Config):
    """All settings of a run whose prediction sets are calibrated on many random divisions."""

    divisions: Annotated[int, Field(ge=1)]


def division(nodes: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Nodes to calibrate on and the others, both in order."""
    generator = torch.Generator().manual_seed(number)
    order = torch.randperm(len(nodes), generator=generator)
    half = len(nodes) // 2
    return nodes[order[:half].sort().values], nodes[order[half:].sort().values]


@torch.no_grad()
def set_scores(trainer: Trainer, divisions: int) -> dict[str, Any]:
    """Coverage and size by score and by kind of guarantee, over all divisions."""
    answer = predict(trainer.model, trainer.data)
    mean, origin, labels = answer.probabilities, answer.origin, trainer.data.y
    alike = feature_neighbors(trainer.data.x, NEIGHBORS)
    tested, classes = trainer.rows["test"], mean.shape[1]

    def counted(kind: SetMethod, number: int) -> Iterator[tuple[str, Counts]]:
        """What one division gives, with one threshold and with one for every class."""
        generator = torch.Generator().manual_seed(number)
        drawn = torch.rand(len(mean), generator=generator, dtype=torch.float64)
        scores = score_classes(mean, kind, origin, drawn, alike)
        fitted, rest = division(tested, number)
        own = scores[fitted].gather(1, labels[fitted][:, None]).squeeze(1)
        for name, by_class in KINDS.items():
            limits = find_thresholds(own, labels[fitted], COVERAGE, classes, by_class=by_class)
            members = scores[rest] <= limits.to(scores)  # may be empty, as in TorchCP
            held = members.gather(1, labels[rest][:, None]).squeeze(1)
            yield name, (held.double(), members.sum(1).double(), labels[rest])

    found: dict[str, Any] = {}
    for kind in SetMethod:
        by_division = [dict(counted(kind, number)) for number in range(divisions)]
        found[kind.value] = {
            name: _summed_up([one[name] for one in by_division], classes) for name in KINDS
        }
    return {"sets": found}


def _summed_up(found: list[Counts], classes: int) -> dict[str, float]:
    """Means and deviations over divisions; the coverage of a class is that of all together."""
    coverage = torch.stack([held.mean() for held, _, _ in found])
    size = torch.stack([sizes.mean() for _, sizes, _ in found])
    held, labels = (torch.cat([one[k] for one in found]) for k in (0, 2))
    hit = torch.zeros(classes, dtype=torch.float64).index_add(0, labels, held)
    by_class = hit / torch.bincount(labels, minlength=classes)
    known = by_class[~by_class.isnan()]
    return {
        "coverage": float(coverage.mean()),
        "coverage_deviation": float(coverage.std()) if len(found) > 1 else 0.0,
        "size": float(size.mean()),
        "size_deviation": float(size.std()) if len(found) > 1 else 0.0,
        "lowest_class": float(known.min()),
        "highest_class": float(known.max()),
    }
