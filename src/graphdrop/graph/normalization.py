"""`Normalization`: the normalized adjacency matrix from edge weights."""

from enum import StrEnum

import torch
from torch import Tensor

from graphdrop.graph.sorting import rows_of
from graphdrop.io.devices import has_float64


class Normalization(StrEnum):
    """How the weights A of the edges are normalized.

    D is the diagonal matrix of row sums, the incoming weight of each destination; 0^-1 and 0^-1/2
    are 0. A self-loop in the data replaces the node's entry of I.
    """

    ROW = "row"
    """D^-1 (A + I), D of A + I."""
    SYM = "sym"
    """D^-1/2 (A + I) D^-1/2, D of A + I: PyG's `gcn_norm`."""
    PAPER = "paper"
    """I + D^-1/2 A D^-1/2, D of A alone: self-loops keep their weight and do not count in D."""
    NONE = "none"
    """A as it was given; no self-loops are added."""

    @classmethod
    def of(cls, name: str) -> "Normalization":
        """The member of this name, or an error that lists them."""
        try:
            return cls(name)
        except ValueError:
            raise ValueError(f"normalization is {name!r}: give one of {', '.join(cls)}") from None


def normalized_weights(
    kind: Normalization, indptr: Tensor, indices: Tensor, weight: Tensor
) -> Tensor:
    """The entries `[E]` of the normalized matrix of a whole graph, computed in float64."""
    if kind is Normalization.NONE:
        return weight
    if not has_float64(weight.device):
        moved = (one.cpu() for one in (indptr, indices, weight))
        return normalized_weights(kind, *moved).to(weight.device)
    destination = rows_of(indptr, len(indices))
    loop = destination == indices
    counted = weight.double()
    if kind is Normalization.PAPER:
        counted = counted.masked_fill(loop, 0.0)
    total = torch.zeros(len(indptr) - 1, dtype=torch.float64, device=weight.device)
    total.index_add_(0, destination, counted)
    del counted
    if kind is Normalization.ROW:
        scale = total.reciprocal().masked_fill_(total == 0.0, 0.0)
        return scale.index_select(0, destination).mul_(weight).to(weight.dtype)
    if bool((total < 0.0).any()):
        node = int((total < 0.0).nonzero()[0])
        raise ValueError(
            f"edge_weight sums to {float(total[node]):g} at node {node}, and {kind.value!r} takes "
            "the square root: give weights with no negative sum, or normalization='row'"
        )
    scale = total.pow(-0.5).masked_fill_(total == 0.0, 0.0)
    value = scale.index_select(0, destination).mul_(scale.index_select(0, indices)).mul_(weight)
    if kind is Normalization.PAPER:
        value[loop] = weight[loop].double()
    return value.to(weight.dtype)
