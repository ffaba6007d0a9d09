"""Which nodes a layer must compute, so that the wanted rows of the last one can be."""

from __future__ import annotations

import torch
from torch import Tensor

from graphdrop.graph.csr import row_entries

MOST = 0.75
"""From this share of the nodes on, all are computed: in order, without a list of them."""


def with_neighbors(indptr: Tensor, indices: Tensor, rows: Tensor | None) -> Tensor | None:
    """Some nodes and those that they read, in increasing order; None for all nodes.

    Args:
        indptr: `[nodes + 1]`, the edges by destination.
        indices: `[edges]`, their sources.
        rows: nodes in any order; None for all.

    Example:
        >>> indptr, indices = torch.tensor([0, 0, 1, 2, 3, 4]), torch.tensor([0, 1, 2, 3])
        >>> with_neighbors(indptr, indices, torch.tensor([2])).tolist()
        [1, 2]
    """
    nodes = len(indptr) - 1
    if rows is None or len(rows) >= MOST * nodes:
        return None
    reached = torch.zeros(nodes, dtype=torch.bool)
    reached[rows] = True
    reached[indices[row_entries(indptr, rows)[0]].long()] = True
    found = reached.nonzero().flatten()
    return found if len(found) < MOST * nodes else None
