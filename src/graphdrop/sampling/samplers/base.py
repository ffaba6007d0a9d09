"""``Sampler``, the base class of samplers: which connections of a layer share a random draw."""

from __future__ import annotations

import copy
import json
from typing import Any, Self

import torch
from torch import Tensor, nn

from graphdrop.graph import Graph
from graphdrop.graph.masks import TEMPERATURE, Kind, Mask, Sharing, rescale_factor, uniforms
from graphdrop.io.devices import has_float64, to_device
from graphdrop.sampling.rates import FixedRate, Rate
from graphdrop.sampling.samplers.draw import Draw


def as_rate(rate: Rate | float) -> Rate:
    """The argument as a ``Rate``; a plain number is a drop rate, as in torch and PyG."""
    if isinstance(rate, Rate):
        return rate
    if isinstance(rate, bool) or not isinstance(rate, int | float):
        raise TypeError(
            f"rate is of type {type(rate).__name__}; it takes a drop rate in [0, 1) or a Rate. "
            "Pass a number such as 0.2, or BetaBernoulliRate()."
        )
    if not 0.0 <= rate < 1.0:
        raise ValueError(
            f"rate is {rate}; a plain number is a drop rate of at least 0 and below 1. For a keep "
            "probability pass FixedRate(keep=...)."
        )
    return FixedRate(keep=1.0 - rate)


def check_blocks(name: str, blocks: int | None) -> None:
    """Raise unless this is a number of blocks, or ``None`` for one per feature."""
    if blocks is None:
        return
    if isinstance(blocks, bool) or not isinstance(blocks, int) or blocks < 1:
        raise ValueError(
            f"{name} is {blocks!r}; it takes a whole number of at least 1, or None for a draw per "
            "feature."
        )


class Sampler(nn.Module):
    """Base class of samplers: describes the random mask over the connections of one layer.

    Every layer of a model gets its own copy, so that each learns its own rate. A subclass states
    whether a draw belongs to an edge or to a source node (``sharing``), how many draws each of them
    has (``blocks``), and what it needs from a layer besides a masked sum: ``on_features``,
    ``needs_weights``, ``needs_earlier_layers`` and ``row_factor``. Layers read these attributes and
    never check for a class.

    Args:
        rate: a drop rate in [0, 1), or a ``Rate``.
        blocks: number of blocks of features with their own draw; ``None`` for one per feature.
        symmetric: (u, v) and (v, u) share one draw.
        self_loops: mask self-loops like other edges; otherwise they are always kept.
        before_normalization: normalize the masked adjacency matrix instead of masking the
            normalized one.
        rescale: divide by the keep probability, so that the expectation is the unmasked sum.

    Example:
        >>> from graphdrop import Graph
        >>> graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]))
        >>> Sampler(0.5).mask(graph, Draw(seed=0, step=0), layer=0).sharing.value
        'edge'
    """

    sharing = Sharing.EDGE
    on_features = False
    """Whether the features of nodes are masked, before aggregation."""
    needs_earlier_layers = False
    """Whether a mask depends on the masks of earlier layers."""

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
                "rescale is True; it takes self_loops=True and before_normalization=False, because "
                "it divides the whole sum by the keep probability. Change one of them."
            )
        if rate.entries and (rescale or self.sharing is Sharing.SOURCE):
            raise ValueError(
                f"rate has {rate.entries.numel()} entries, one per edge; {type(self).__name__} "
                "takes a rate with one value. Use DropEdge or GraphDropConnect for rates per edge."
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
        """Whether a draw belongs to a pair of input and output feature, inside ``H W``."""
        return False

    @property
    def only_masks(self) -> bool:
        """Whether the sampler changes a layer by the mask of its sum alone."""
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
        """The factor of each row of the masked sum, ``[num_dst, 1]`` or a scalar; or ``None``."""
        return rescale_factor(mask) if self.rescale else None

    @property
    def reads_edges(self) -> bool:
        """Whether the rate is computed from edge features, which ``observe`` sets."""
        return self.rate.reads_edges

    def observe(self, edges: Tensor) -> None:
        """Set the edges of the whole graph, as ``rate.describe`` returns them."""
        self.rate.observe(edges)

    def mask(self, graph: Graph, draw: Draw | None, layer: int) -> Mask:
        """The mask of one layer in one forward pass; the expected mask if ``draw`` is ``None``."""
        entries = self.rate.entries
        numbered = graph.parent is None and graph.parent_edge is not None
        edges = graph.num_edges if graph.parent is None else graph.parent.num_edges
        if entries and entries.numel() != edges and not numbered:
            raise ValueError(
                f"the rate has {entries.numel()} entries, and the graph {edges} edges, self-loops "
                "included: use the graph that it was made for, or a rate that all edges share"
            )
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
        device = self.rate.device
        if count > 1 and has_float64(device):  # drawn there, the same bits, rather than moved
            key = key.to(device)
        return to_device(uniforms(key, count).reshape(self.rate.entries), device)

    def for_first_layer(self) -> Self:
        """A copy for the first layer of a network, which may have other blocks."""
        return copy.deepcopy(self)

    def for_later_layer(self) -> Self:
        """A copy for a later layer, with its rate initialized again."""
        fresh = copy.deepcopy(self)
        fresh.rate.reset_parameters()
        return fresh

    @property
    def _settings(self) -> dict[str, Any]:
        """What the state of a sampler belongs to, beside the parameters of its rate."""
        names = ("blocks", "symmetric", "self_loops", "before_normalization", "rescale", "pairs")
        set_here = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return {"sampler": type(self).__name__, **set_here}

    def get_extra_state(self) -> Tensor:
        """The settings of the sampler, as a part of the state of its model: JSON in bytes."""
        text = json.dumps(self._settings).encode()
        return torch.tensor(list(text), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Compare the settings of the state with those of this sampler; raise if they differ."""
        try:
            stored = dict(json.loads(bytes(state.tolist())))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"the state of a {type(self).__name__} has settings that are none ({error}): take "
                "the state of a model that graphdrop has built"
            ) from error
        own = self._settings
        for name in {**own, **stored}:
            if own.get(name) != stored.get(name):
                raise ValueError(
                    f"{name} is {own.get(name)!r} in this model and {stored.get(name)!r} in the "
                    "state: build the model with the sampler that the state was saved with"
                )

    def extra_repr(self) -> str:
        """The options that are set."""
        blocks = "per feature" if self.blocks is None else self.blocks
        flags = [
            name for name in ("symmetric", "before_normalization", "rescale") if getattr(self, name)
        ]
        if not self.self_loops:
            flags.append("self_loops=False")
        return ", ".join([f"blocks={blocks}", *flags])
