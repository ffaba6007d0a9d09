"""Undirected edges from the edges that a file stores.

Every graph that is read from a file is undirected: an edge that the file has in one direction is
completed with the other, repeated entries count once, and self-loops are removed, because models
add their own. The edges of a PyG `Data` are checked and not changed.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.utils import coalesce, remove_self_loops, to_undirected


@dataclass(frozen=True)
class EdgeChanges:
    """The changes to the edges of a file.

    Of `stored` entries, `duplicates` repeated an earlier one, `self_loops` nodes had an edge to
    themselves that was removed, and `one_way` edges got their missing direction.
    """

    stored: int
    duplicates: int
    self_loops: int
    one_way: int

    def __str__(self) -> str:
        done = (
            (self.one_way, "given their other direction"),
            (self.duplicates, "repeats merged"),
            (self.self_loops, "self-loops removed"),
        )
        counts = (f"{count:,} {what}" for count, what in done if count)
        return ", ".join([f"{self.stored:,}", *counts])


def undirected_edges(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, EdgeChanges]:
    """Make `edge_index [2, E]` symmetric, without repeats and self-loops, sorted by source."""
    distinct = coalesce(edge_index, num_nodes=num_nodes)
    proper, _ = remove_self_loops(distinct)
    symmetric = to_undirected(proper, num_nodes=num_nodes)
    return symmetric, EdgeChanges(
        stored=edge_index.shape[1],
        duplicates=edge_index.shape[1] - distinct.shape[1],
        self_loops=distinct.shape[1] - proper.shape[1],
        one_way=symmetric.shape[1] - proper.shape[1],
    )


def isolated_nodes(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Mark the nodes `[n]` with no edge but to themselves."""
    proper, _ = remove_self_loops(edge_index)
    isolated = torch.ones(num_nodes, dtype=torch.bool, device=edge_index.device)
    isolated[proper.flatten()] = False
    return isolated


def assortativity(edge_index: Tensor, targets: Tensor) -> float:
    """The correlation of the targets `[n]` at both ends of an edge; NaN where there is none.

    Self-loops and nodes without a target (NaN) do not count.
    """
    ends = targets.double()[remove_self_loops(edge_index)[0]]
    ends = ends[:, ~ends.isnan().any(0)]
    return float(torch.corrcoef(ends)[0, 1]) if ends.shape[1] > 1 else float("nan")


def edge_homophily(edge_index: Tensor, labels: Tensor) -> float:
    """The fraction of edges between labelled nodes whose ends share the label (NaN for none).

    Self-loops do not count.
    """
    source, target = remove_self_loops(edge_index)[0]
    labelled = (labels[source] >= 0) & (labels[target] >= 0)
    same = labels[source[labelled]] == labels[target[labelled]]
    return float(same.double().mean())


def adjusted_homophily(
    edge_index: Tensor, labels: Tensor, num_classes: int
) -> tuple[float | None, int]:
    """The adjusted homophily of the edges between labelled nodes, and how many there are.

    ``(h - sum p_k^2) / (1 - sum p_k^2)`` with ``h`` the share of edges inside a class and ``p_k``
    the share of edge ends in class ``k``: 0 is what classes without influence on the edges give,
    whatever their sizes. ``None`` where there is one class only, or no edge. An edge that is stored
    in both directions counts once.

    Args:
        edge_index: ``[2, edges]``.
        labels: ``[nodes]``, classes from 0, and -1 where none is known.
        num_classes: number of classes.
    """
    (source, target), _ = remove_self_loops(edge_index)
    known = (labels[source] >= 0) & (labels[target] >= 0)
    ends = torch.stack([source[known], target[known]])
    ends = torch.unique(ends.sort(0).values, dim=1)
    one, other = labels[ends[0]], labels[ends[1]]
    count = int(ends.shape[1])
    if not count:
        return None, 0
    share = (one.bincount(minlength=num_classes) + other.bincount(minlength=num_classes)).double()
    chance = float((share / share.sum()).square().sum())
    if chance >= 1.0:
        return None, count
    inside = float((one == other).double().mean())
    return (inside - chance) / (1.0 - chance), count
