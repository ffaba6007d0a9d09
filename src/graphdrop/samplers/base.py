"""``Sampler``: which connections of a layer share a draw, and at which rate they are kept."""

from __future__ import annotations

import copy
from typing import Self

import torch
from torch import Tensor, nn

from graphdrop.draws import TEMPERATURE, Kind, Mask, Sharing, rescale_factor, uniforms
from graphdrop.graph import Graph
from graphdrop.rates import AmortizedRate, FixedRate, Rate
from graphdrop.samplers.draw import Draw


def as_rate(rate: Rate | float) -> Rate:
    """A rate as it is; a plain number is a drop rate, as everywhere in torch and PyG."""
    if isinstance(rate, Rate):
        return rate
    if isinstance(rate, bool) or not isinstance(rate, int | float):
        raise TypeError(
            "rate must be a drop rate in [0, 1) or a Rate such as BetaBernoulliRate(); got "
            f"{type(rate).__name__}"
        )
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"rate is {rate}: a plain number is a drop rate, and takes 0 to below 1")
    return FixedRate(keep=1.0 - rate)


def check_blocks(name: str, blocks: int | None) -> None:
    """Raise unless this is a number of blocks, or ``None`` for one per feature."""
    if blocks is None:
        return
    if isinstance(blocks, bool) or not isinstance(blocks, int) or blocks < 1:
        raise ValueError(
            f"{name} must be a positive count, or None for a mask per feature; got {blocks!r}"
        )


class Sampler(nn.Module):
    """Describes the random mask over one layer's connections.

    A model gives every layer a copy of its own, so that each learns its own rate. A subclass says
    what a draw belongs to (``sharing``), how many draws that has (``blocks``), and what it needs
    from a layer beside a masked sum (``on_features``, ``needs_weights``, ``needs_earlier_layers``,
    ``row_factor``): whoever runs a layer asks for these, never for the class.

    Args:
        rate: the keep probability, fixed or learned; a plain number is a fixed **drop** rate.
        symmetric: (u, v) and (v, u) share one draw.
        self_loops: mask self-loops like any edge; otherwise they are always kept.
        before_normalization: mask the adjacency matrix and normalize what is left.
        rescale: divide by the keep probability, so that the expectation is the unmasked sum.
    """

    sharing = Sharing.EDGE
    on_features = False
    """Its draws belong to the features of nodes: they are masked before anything is summed."""
    needs_earlier_layers = False
    """Its masks depend on what the layers before have drawn."""

    def __init__(
        self,
        rate: Rate | float,
        *,
        blocks: int | None = 1,
        symmetric: bool = False,
        self_loops: bool = True,
        before_normalization: bool = False,
        rescale: bool = False,
    ) -> None:
        super().__init__()
        rate = as_rate(rate)
        if rescale and (before_normalization or not self_loops):
            raise ValueError(
                "rescale=True divides the whole sum by the keep probability, so it needs "
                "self_loops=True and before_normalization=False"
            )
        if rate.entries and (rescale or self.sharing is Sharing.SOURCE):
            raise ValueError(
                f"rate has {rate.entries.numel()} entries, one per edge: that takes draws which "
                "belong to edges, and rescale=False; use DropEdge or GraphDropConnect"
            )
        check_blocks("blocks", blocks)
        self.rate = rate
        self.blocks = blocks
        self.symmetric = symmetric
        self.self_loops = self_loops
        self.before_normalization = before_normalization
        self.rescale = rescale

    @property
    def needs_weights(self) -> bool:
        """Whether it draws for every input *and* output feature, inside the layer's product."""
        return False

    @property
    def only_masks(self) -> bool:
        """Whether the mask of a sum is all that it does to a layer."""
        return not (
            self.rescale or self.on_features or self.needs_earlier_layers or self.needs_weights
        )

    def row_factor(
        self,
        graph: Graph,  # noqa: ARG002 - a subclass reads them
        draw: Draw | None,  # noqa: ARG002
        layer: int,  # noqa: ARG002
        mask: Mask,
    ) -> Tensor | None:
        """What a row of the masked sum is multiplied by, if by anything."""
        return rescale_factor(mask) if self.rescale else None

    @property
    def reads_edges(self) -> bool:
        """Whether the rate is computed from edges, which ``observe`` must give it first."""
        return isinstance(self.rate, AmortizedRate)

    def observe(self, edges: Tensor) -> None:
        """Draw for these edges from now on: ``describe_edges`` of a whole graph."""
        if isinstance(self.rate, AmortizedRate):
            self.rate.observe(edges)

    def mask(self, graph: Graph, draw: Draw | None, layer: int) -> Mask:
        """The mask of one layer in one pass; without a draw, its expectation."""
        temperature = TEMPERATURE if draw is None else draw.temperature or TEMPERATURE
        table = None
        if draw is None:
            kind, key = Kind.MEAN, torch.zeros(2, dtype=torch.int64)
            logit = torch.logit(self.rate.mean())
        else:
            kind, key = draw.kind, draw.key(layer)
            logit = self.rate.logit(self._uniforms(key))
            if kind is Kind.CONCRETE:
                table = self.rate.table(temperature)
        if logit.dim() == 1 and graph.parent_edge is not None:
            logit = logit[graph.parent_edge]
        return Mask(
            kind,
            logit,
            key,
            self.sharing,
            self.blocks,
            symmetric=self.symmetric,
            self_loops=self.self_loops,
            before_normalization=self.before_normalization,
            temperature=temperature,
            antithetic=draw is not None and draw.antithetic,
            table=table,
        )

    def _uniforms(self, key: Tensor) -> Tensor | None:
        count = self.rate.num_uniforms
        if count == 0:
            return None
        return uniforms(key, count).reshape(self.rate.entries).to(self.rate.device)

    def for_first_layer(self) -> Self:
        """A copy for a network's first layer, where some samplers share more."""
        return copy.deepcopy(self)

    def for_later_layer(self) -> Self:
        """A copy for any other layer, its learned rate starting afresh."""
        fresh = copy.deepcopy(self)
        fresh.rate.reset_parameters()
        return fresh

    def extra_repr(self) -> str:
        """The options that are set."""
        blocks = "per feature" if self.blocks is None else self.blocks
        flags = [
            name for name in ("symmetric", "before_normalization", "rescale") if getattr(self, name)
        ]
        if not self.self_loops:
            flags.append("self_loops=False")
        return ", ".join([f"blocks={blocks}", *flags])
