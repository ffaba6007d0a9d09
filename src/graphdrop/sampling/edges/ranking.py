"""`RankedEdges`: the edges of a graph in the order in which a person should look at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphdrop.data.names import Names
from graphdrop.graph import Graph
from graphdrop.sampling.edges.numbers import EdgeOrder, columns_of, distinct_edges
from graphdrop.sampling.edges.prior import EdgeFit, EdgePrior

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True, eq=False, repr=False)
class RankedEdges:
    """The edges between different nodes, the least trusted first.

    An edge that is listed in both directions, or several times, stands here once.

    Example:
        >>> from graphdrop import load_dataset
        >>> from graphdrop.sampling import fit_edge_prior
        >>> data = load_dataset("synthetic").data
        >>> edges = RankedEdges.from_fit(fit_edge_prior(data), data)
        >>> bool((edges.keep.diff() >= 0).all())
        True
    """

    edge_index: Tensor
    """The two ends of every edge, ``[2, E]``."""
    keep: Tensor
    """The keep probability of every edge, ``[E]``, in ascending order."""
    numbers: Tensor
    """What is known of every edge, ``[E, numbers]``."""
    number_names: list[str]
    """The names of these numbers, such as ``"cosine"``."""
    names: Names
    """The ids of the nodes."""

    @property
    def doubtful(self) -> int:
        """The number of edges that are kept less than half of the time."""
        return int((self.keep < 0.5).sum())

    def __len__(self) -> int:
        return len(self.keep)

    def __repr__(self) -> str:
        return (
            f"RankedEdges({len(self):,} edges, {self.doubtful:,} kept less than half of the time)"
        )

    def summary(self) -> str:
        """One sentence: how many edges are kept less than half of the time."""
        return f"{self.doubtful:,} of {len(self):,} edges are kept less than half of the time."

    def ends(self, i: int) -> tuple[str, str]:
        """The ids of both ends of the edge of rank ``i``, counted from 0."""
        source, target = self.edge_index[:, i].tolist()
        return self.names.node(source), self.names.node(target)

    def describe(self, count: int) -> str:
        """Name the first edges in one line."""
        rows = enumerate(self.keep[:count].tolist())
        return ", ".join(f"{' - '.join(self.ends(i))} (kept {keep:.1%})" for i, keep in rows)

    def columns(self) -> dict[str, Sequence[Any]]:
        """The columns of a table, as ``pandas.DataFrame`` takes them: the ends first."""
        ends = self.edge_index.tolist()
        source, target = ([self.names.node(node) for node in column] for column in ends)
        table: dict[str, Sequence[Any]] = {"source": source, "target": target}
        table |= {"keep_probability": self.keep.tolist(), "rank": range(1, len(self) + 1)}
        names = (name.replace(" ", "_") for name in self.number_names)
        return table | dict(zip(names, self.numbers.T.tolist(), strict=True))

    @classmethod
    def from_fit(cls, fit: EdgeFit, data: Data) -> RankedEdges:
        """Rank the edges of a graph by the keep probabilities that were fitted to it."""
        return cls._rank(fit.prior, fit.keep, fit.numbers, data)

    @classmethod
    @torch.no_grad()
    def from_prior(cls, prior: EdgePrior, data: Data) -> RankedEdges:
        """Rank the edges of any graph.

        Args:
            prior: the fitted coefficients.
            data: the graph, with features as the prior was fitted to.
        """
        graph = Graph.from_data(data).to("cpu")
        order = EdgeOrder(data.edge_index, graph)
        given = columns_of(data, None, data.edge_index.shape[1])
        columns = {name: order.to_graph(column.cpu()) for name, column in given.items()}
        x = None if data.x is None else data.x.cpu()
        keep = prior(graph, x, columns).sigmoid()
        numbers = order.to_list(prior.numbers(graph, x, columns), 0.0).float()
        return cls._rank(prior, order.to_list(keep, 1.0), numbers, data)

    @classmethod
    def _rank(cls, prior: EdgePrior, keep: Tensor, numbers: Tensor, data: Data) -> RankedEdges:
        edges = data.edge_index.cpu()
        rows = distinct_edges(edges, keep)
        rows = rows[edges[0, rows] != edges[1, rows]]
        rows = rows[keep[rows].argsort(stable=True)]
        return cls(edges[:, rows], keep[rows], numbers[rows], prior.names, Names.of(data))
