"""Analysis of learned rates per edge: within classes and between classes.

It reads all labels, those of test nodes too; nothing is selected by its results.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphdrop.metrics import ood_auroc
from graphdrop.train import Trainer

QUANTILES = tuple(k / 10 for k in range(11))
WITHIN, BETWEEN, LOOPS = KINDS = ("within a class", "between classes", "self-loops")


def edge_rates(trainer: Trainer) -> dict[str, Any] | None:
    """Expected keep rates of every layer by kind of edge; None where edges have none of their own.

    `separation` is the chance that an edge within a class is kept more than one between classes.
    """
    rates = [
        layer.sampler.rate.mean().detach()
        for layer in trainer.run.engine.sampled_layers().values()
        if layer.sampler is not None and layer.sampler.rate.entries
    ]
    if not rates:
        return None
    graph, labels = trainer.run.dataset.graph, trainer.data.y
    kinds = kinds_of_edges(graph.edge_dst, graph.indices, labels)
    return {
        "edges": {kind: int(edges.sum()) for kind, edges in kinds.items()},
        "layers": [
            {kind: _spread(rate[edges]) for kind, edges in kinds.items()}
            | {"separation": separation(rate[kinds[WITHIN]], rate[kinds[BETWEEN]])}
            for rate in rates
        ],
    }


def kinds_of_edges(destination: Tensor, source: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Which edges are of each kind, bool `[E]`; an end without a label (-1) has no class."""
    ends = labels[destination], labels[source]
    loops = destination == source
    classed = (ends[0] >= 0) & (ends[1] >= 0) & ~loops
    same = ends[0] == ends[1]
    return {WITHIN: classed & same, BETWEEN: classed & ~same, LOOPS: loops}


def separation(within: Tensor, between: Tensor) -> float | None:
    """The chance that one of `within` is above one of `between`; ties count half."""
    if not (len(within) and len(between)):
        return None
    flags = torch.arange(len(within) + len(between)) < len(within)
    return float(ood_auroc(torch.cat([within, between]), flags))


def _spread(rates: Tensor) -> dict[str, Any]:
    if not len(rates):
        return {"mean": None, "quantiles": None}
    levels = torch.tensor(QUANTILES, dtype=torch.float64)
    return {
        "mean": float(rates.double().mean()),
        "quantiles": torch.quantile(rates.double(), levels).tolist(),
    }
