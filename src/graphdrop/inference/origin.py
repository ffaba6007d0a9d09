"""``Origin``: where a prediction comes from: its graph, its raw outputs, its calibration nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Tensor

from graphdrop.data.names import Names
from graphdrop.nn.defaults import SetNodes
from graphdrop.sampling import RankedEdges


@dataclass(frozen=True, eq=False)
class Origin:
    """What a prediction remembers of how it was made."""

    logits: Tensor | None = None
    """Mean over the samples before any calibration, ``[rows, classes]``."""
    energy: Tensor | None = None
    """Mean over the samples of minus the log-sum-exp of their logits, ``[rows]``."""
    nodes: int | None = None
    """Number of nodes of the graph; ``None`` where there are several graphs or it is unknown."""
    rows: Tensor | None = None
    """The nodes that are predicted, by number; ``None`` for all."""
    edge_index: Tensor | None = None
    x: Tensor | None = None
    set_nodes: SetNodes | None = None
    same_graph: bool = True
    """Whether the graph is the one that ``set_nodes`` belong to."""
    class_counts: tuple[int, ...] = ()
    """The number of labelled training nodes of every class; empty where it is unknown."""
    names: Names = field(default_factory=Names)
    """The ids of all nodes of the graph, and the names of the classes."""
    rank_edges: Callable[[], RankedEdges] | None = None
    """Rank the edges of the graph; ``None`` where the model has no fitted rates per edge."""

    def node(self, row: int) -> str:
        """The id of the node in a row of the prediction."""
        return self.names.node(row if self.rows is None else int(self.rows[row]))

    @classmethod
    def of(cls, data: Any, rows: Tensor | None = None) -> Self:
        """Read a PyG ``Data``; nothing is known of other inputs."""
        edge_index, x = (getattr(data, name, None) for name in ("edge_index", "x"))
        if not isinstance(edge_index, Tensor):
            return cls()
        if rows is not None and rows.dtype == torch.bool:
            rows = rows.nonzero().flatten()
        return cls(
            nodes=len(x) if isinstance(x, Tensor) else None,
            rows=rows,
            edge_index=edge_index,
            x=x if isinstance(x, Tensor) else None,
            names=Names.of(data) if isinstance(x, Tensor) else Names(),
        )


class RawOutputs:
    """Sums of logits and of their energies over samples, taken as these pass by."""

    def __init__(self) -> None:
        self.count = 0
        self.logits = self.energy = torch.zeros(())

    def record(self, outputs: Iterator[Tensor]) -> Iterator[Tensor]:
        """The same outputs, one by one."""
        for logits in outputs:
            if logits.dim() == 2:
                self.logits = self.logits.to(logits.device) + logits.double()
                self.energy = self.energy.to(logits.device) - logits.double().logsumexp(1)
                self.count += 1
            yield logits

    def add_to(self, origin: Origin) -> Origin:
        """Add the means over the recorded outputs to an origin."""
        if not self.count:
            return origin
        logits, energy = ((sums / self.count).float() for sums in (self.logits, self.energy))
        if origin.rows is None and origin.edge_index is not None:
            if origin.nodes not in (None, len(logits)):
                origin = Origin(
                    names=Names(None, origin.names.classes)
                )  # of graphs, not of their nodes
            else:
                origin = replace(origin, nodes=len(logits))
        return replace(origin, logits=logits, energy=energy)
