"""``Surroundings``: what a calibrator that reads the graph sees of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The graph around the nodes that are calibrated, with the outputs of all of its nodes."""

    logits: Tensor
    """Mean over the samples, of all nodes, ``[n, classes]``."""
    edge_index: Tensor
    """``[2, E]``."""
    rows: Tensor | None = None
    """The nodes whose outputs are corrected, by number or as a bool mask; ``None`` for all."""
    train: Tensor | None = None
    """The training nodes, by number, where they are known."""

    def around(self, rows: Tensor) -> Self:
        """The same graph around other nodes."""
        return replace(self, rows=rows)

    @classmethod
    def of(cls, data: Any, logits: Tensor, rows: Tensor | None = None) -> Self:
        """Of a PyG ``Data``; its ``train_mask [n]``, if it has one, gives the training nodes."""
        edge_index = getattr(data, "edge_index", None)
        if not isinstance(edge_index, Tensor):
            raise ValueError(
                "data has no edge_index tensor; a calibrator that reads the graph takes a PyG Data "
                "with edge_index [2, E]. Pass data=Data(x=x, edge_index=edge_index)."
            )
        if len(edge_index.flatten()) and int(edge_index.max()) >= len(logits):
            raise ValueError(
                f"logits has {len(logits)} rows and edge_index names node {int(edge_index.max())}; "
                "a calibrator that reads the graph takes the logits of all nodes. Pass those, and "
                "mask=... for the nodes to calibrate on."
            )
        mask = getattr(data, "train_mask", None)
        known = isinstance(mask, Tensor) and mask.dim() == 1 and mask.dtype == torch.bool
        train = mask.nonzero().flatten() if known and mask is not None else None
        return cls(logits, edge_index, rows, train)


def mean_of(samples: Iterable[Tensor]) -> Tensor:
    """The mean of outputs that come one by one, in float64."""
    total, count = torch.zeros(()), 0
    for one in samples:
        total = total.to(one.device) + one.double()
        count += 1
    return total / count
