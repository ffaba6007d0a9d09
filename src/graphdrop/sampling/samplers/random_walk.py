"""``RandomWalk``: autoregressive masks that sample connected neighbourhoods."""

from __future__ import annotations

import copy
from typing import Self

import torch
from torch import Tensor

from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask
from graphdrop.io.devices import has_float64, to_device
from graphdrop.kernels import aggregate
from graphdrop.kernels.reference import materialize
from graphdrop.sampling.rates import Rate
from graphdrop.sampling.samplers.base import Sampler
from graphdrop.sampling.samplers.draw import Draw

NODES = 512
"""Nodes of the midpoint rule that integrates over a random rate."""


class RandomWalk(Sampler):
    r"""Random walk sampling: connected neighbourhoods, as in GraphSAGE; eq. (13) of the paper.

    .. math::
        z^{(l)}_{vu} = B^{(l)}_{vu} \, r^{(l)}_v, \qquad
        r^{(l)}_v = 1\Big[ \sum_u z^{(l-1)}_{vu} > 0 \Big], \qquad r^{(1)}_v = 1

    with independent :math:`B^{(l)}_{vu} \sim \mathrm{Bernoulli}(\pi_l)`, self-loops included. A
    node without a kept edge in one layer aggregates nothing in the later layers.

    ``mask`` describes the ``B``, and ``reached`` computes the ``r``, ``[num_dst, 1]``, which
    multiply the rows of the masked sum. The loss is a function of independent draws, so that every
    gradient estimator applies. For relaxed masks, which are never 0, ``r`` is
    :math:`r^{(l)}_v = r^{(l-1)}_v (1 - \prod_u (1 - \tilde B^{(l-1)}_{vu}))`, equal to the above
    where they are 0 or 1.

    Args:
        rate: a drop rate in [0, 1), or a ``Rate`` with one value; each layer has its own.

    Example:
        >>> from graphdrop import GCN
        >>> model = GCN(16, 32, 2, 7, RandomWalk(0.25))
        >>> model.drop_rates()
        {'layers.0': 0.25, 'layers.1': 0.25}
    """

    needs_earlier_layers = True

    def __init__(self, rate: Rate | float) -> None:
        super().__init__(rate)
        if self.rate.entries:
            raise ValueError(
                f"rate has {self.rate.entries.numel()} entries; RandomWalk takes a rate with one "
                "value. Build it without entries, or use DropEdge or GraphDropConnect."
            )
        # in a tuple, or it would be a child of its successor
        self._previous: tuple[RandomWalk, ...] = ()
        self._latest: tuple[RandomWalk, ...] = ()

    def for_first_layer(self) -> Self:
        """A copy for the first layer, where the walk begins."""
        self._latest = ()
        first = copy.deepcopy(self)
        self._latest = (first,)
        return first

    def for_later_layer(self) -> Self:
        """A copy for the next layer, which continues from the copy made last."""
        previous, self._latest = self._latest, ()
        later = super().for_later_layer()
        later._previous = previous
        self._latest = (later,)
        return later

    def row_factor(
        self,
        graph: Graph,
        draw: Draw | None,
        layer: int,
        mask: Mask,  # noqa: ARG002
    ) -> Tensor | None:
        """``reached``: whether the walk has reached each row."""
        return self.reached(graph, draw, layer)

    def reached(self, graph: Graph, draw: Draw | None, layer: int) -> Tensor | None:
        """Whether the walk has reached each row before this layer, ``[num_dst, 1]``.

        0 or 1 with hard masks; the probability without a draw; ``None`` in the first layer, where
        every node is reached. It is computed from all edges of a row, also where a batch has a
        sample of them.
        """
        graph = graph.complete_rows
        reached = None
        earlier, number = self._previous, layer - 1
        while earlier:
            (sampler,) = earlier
            kept = sampler._some_edge(graph, draw, number)
            reached = kept if reached is None else reached * kept
            earlier, number = sampler._previous, number - 1
        return reached

    def _some_edge(self, graph: Graph, draw: Draw | None, layer: int) -> Tensor:
        """Whether this layer keeps at least one edge of each row, ``[num_dst, 1]``."""
        if draw is None:
            return self._chance_of_some_edge(graph.degree).to(graph.value)[:, None]
        mask = self.mask(graph, draw, layer)
        if mask.kind is Kind.HARD:
            return _kept_edges(graph, mask).clamp(max=1.0)
        return _relaxed_or(graph, mask)

    def _chance_of_some_edge(self, degree: Tensor) -> Tensor:
        """``1 - E[(1 - pi)^degree]``, where the edges of a row share one random ``pi``."""
        degree = degree if has_float64(degree.device) else degree.cpu()
        u = (torch.arange(NODES, dtype=torch.float64) + 0.5) / NODES
        keep = (
            self.rate.sample(to_device(u, self.rate.device)).to(degree.device).double().reshape(-1)
        )
        # one power for each degree that occurs, not for each node
        occurs = torch.bincount(degree) > 0
        number = occurs.nonzero()
        chance = torch.zeros(len(occurs), dtype=torch.float64, device=degree.device)
        chance[number[:, 0]] = 1.0 - ((1.0 - keep) ** number).mean(1)
        return chance[degree]


def _kept_edges(graph: Graph, mask: Mask) -> Tensor:
    """How many edges of each row a hard mask keeps."""
    return aggregate(graph.unweighted(), graph.value.new_ones(graph.num_src, 1), mask)


def _relaxed_or(graph: Graph, mask: Mask) -> Tensor:
    """``1 - prod (1 - z)`` over the edges of each row, with a gradient for the keep logit."""
    # in float64, and short of 1, where the logarithm and its gradient are finite
    dtype, least = torch.float64, 2.0**-48
    if not has_float64(graph.value.device):
        dtype, least = torch.float32, 2.0**-22
    z = materialize(graph, mask, 1, dtype=dtype).clamp(max=1.0 - least)
    none = z.new_zeros(graph.num_dst, 1)
    none = none.index_add(0, graph.edge_dst.long(), torch.log1p(-z))
    return -torch.expm1(none).to(graph.value.dtype)
