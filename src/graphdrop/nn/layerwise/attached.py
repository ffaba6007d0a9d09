"""Layer-wise passes through an attached PyG model, with the masks of the full batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from graphdrop.loading.whole import WholeGraph
from graphdrop.nn.attach.batches import given_edges
from graphdrop.nn.attach.edges import EdgeCache
from graphdrop.nn.attach.layer import MaskedLayer
from graphdrop.nn.handle import NAME, Handle, one_at_a_time
from graphdrop.nn.layerwise.features import Rows
from graphdrop.nn.layerwise.neighborhoods import Local, Neighborhoods
from graphdrop.nn.layerwise.stages import INPUT, NORMALIZED, Stage, last_reads, stages_of
from graphdrop.nn.layerwise.states import States
from graphdrop.nn.state import predicting
from graphdrop.sampling.samplers import Draw

TOGETHER = 16
"""The largest number of samples that share the neighborhoods of a chunk."""

State = Rows | Tensor


class LayerwiseModel:
    """The passes of an attached model over a graph, stage by stage.

    Args:
        handle: of a `BasicGNN` of PyG, or of an architecture of `graphdrop train`.
        x: features of all nodes.
        data: the PyG `Data` with the edges.
        states: where hidden states are stored.
        rows: the nodes whose outputs are wanted; all by default.
    """

    def __init__(
        self, handle: Handle, x: Rows, data: Any, states: States, rows: Tensor | None
    ) -> None:
        self.handle, self.x, self.states = handle, x, states
        self.stages = stages_of(handle.model)
        self.rows, self.back = rows, None
        if rows is not None:
            self.rows, order = rows.sort()
            self.back = order.argsort()
        edge_index = data.edge_index
        if not isinstance(edge_index, Tensor) or edge_index.layout is not torch.strided:
            raise TypeError(
                f"edge_index is of type {type(edge_index).__name__}; with layerwise=True an "
                "attached model takes a tensor [2, E]."
            )
        self.edge_index = edge_index
        given = {name: getattr(data, name, None) for name in ("edge_weight", "edge_attr")}
        self.given = {name: value for name, value in given.items() if value is not None}
        self._needed: dict[str, Tensor | None] | None = None
        self._known: dict[Any, tuple[Neighborhoods, dict[str, Tensor]]] = {}
        self._numbers = {id(layer): number for number, layer in handle.numbered_layers()}
        samplers = [one.sampler for one in handle.layers.values() if one.sampler is not None]
        self.whole: WholeGraph | None = None
        if any(one.rate.entries or one.before_normalization for one in samplers):
            weight = self.given.get("edge_weight")
            self.whole = WholeGraph(edge_index, len(x), weight)

    @torch.no_grad()
    def samples(self, draws: Iterable[Draw | None]) -> Iterator[Tensor]:
        """The outputs `[rows, out]` of several draws, one by one."""
        draws = iter(draws)
        widest = max(getattr(self.handle.model, "hidden_channels", 0), 1)
        step = min(TOGETHER, self.states.at_once(2 * widest))
        while group := list(islice(draws, step)):
            self._check(group)
            modes = predicting(self.handle.model, dropout=False, batch_statistics=False)
            with one_at_a_time, modes, self._normalized_before():
                if self._needed is None:
                    self._needed = self._needs()
                out = self._group(group, self._needed)
            out = out if self.back is None else out[self.back]
            yield from out.unbind(1)

    def _check(self, draws: list[Draw | None]) -> None:
        first = next(iter(self.handle.layers.values()))
        chance = any(draw is not None and not draw.keeps_all for draw in draws)
        for name in ("sample_dropout", "batch_statistics"):
            if chance and getattr(first, name):
                raise ValueError(
                    f"the model was attached with {name}=True, which acts on all nodes at once: "
                    "predict without layerwise, or attach without it"
                )

    def _group(self, draws: list[Draw | None], needed: dict[str, Tensor | None]) -> Tensor:
        states: dict[str, State] = {INPUT: self.x}
        until = last_reads(self.stages)
        for number, stage in enumerate(self.stages):
            last = number + 1 == len(self.stages)
            states[stage.writes] = self._run(stage, states, draws, needed[stage.writes], last=last)
            for name in [name for name, read in until.items() if read == number]:
                del states[name]
        out = states[self.stages[-1].writes]
        assert isinstance(out, Tensor)  # noqa: S101 - a stage writes a tensor
        return out

    def _needs(self) -> dict[str, Tensor | None]:
        """Of every state, the nodes at which it is read; None for all."""
        needed = {self.stages[-1].writes: self.rows}
        for stage in reversed(self.stages):
            rows = needed[stage.writes]
            if stage.layer is not None:
                rows = self._edges(stage.layer)[0].read_by(rows)
            for name in stage.reads:
                needed[name] = _union(needed[name], rows) if name in needed else rows
        return needed

    def _run(
        self,
        stage: Stage,
        states: dict[str, State],
        draws: list[Draw | None],
        rows: Tensor | None,
        *,
        last: bool,
    ) -> Tensor:
        size = len(self.x) if rows is None else len(rows)
        around, values = self._edges(stage.layer)
        out, first = None, 0
        for wanted in around.spans(self.states.batch_size, rows):
            if stage.layer is None:
                nothing = wanted.new_empty(0)
                local = Local(wanted, len(wanted), nothing.new_empty(2, 0), nothing)
            else:
                local = around.of(wanted)
            edges = {name: value[local.edge] for name, value in values.items()}
            read = [_read(states[name], local.nodes) for name in stage.reads]
            given = {"edge_index": local.edge_index, **edges}
            cache = EdgeCache(local.nodes, self.whole)
            for sample, draw in enumerate(draws):
                own = [part if part.dim() == 2 else part[:, sample] for part in read]
                part = self._compute(stage, own, given, draw, cache)[: local.wanted]
                if out is None:
                    shape = len(draws), part.shape[1]
                    out = part.new_empty(size, *shape) if last else self.states.empty(*shape)
                at = wanted if rows is not None and not last else slice(first, first + len(wanted))
                out[at, sample] = part
            first += local.wanted
        if out is None:  # no rows
            raise ValueError("rows is empty; it takes at least one node.")
        return out

    def _compute(
        self,
        stage: Stage,
        own: list[Tensor],
        edges: dict[str, Tensor],
        draw: Draw | None,
        cache: EdgeCache,
    ) -> Tensor:
        if stage.layer is None:
            return stage.compute(*own)
        masked = getattr(stage.layer, NAME, None)
        if not isinstance(masked, MaskedLayer):
            return stage.compute(*own, **edges)
        with masked.asked(draw, self._numbers[id(masked)], cache, stage.call):
            return stage.compute(*own, **edges)

    def _edges(self, layer: Any) -> tuple[Neighborhoods, dict[str, Tensor]]:
        """The edges that a layer reads, normalized over the whole graph where it does that."""
        key: Any = None
        if isinstance(layer, NORMALIZED):
            improved = getattr(layer, "improved", False)
            key = (improved, layer.add_self_loops, layer in self._unnormalized)
        if key in self._known:
            return self._known[key]
        edge_index, values = self.edge_index, self.given
        if key is not None and key[2]:
            weight = self.given.get("edge_weight")
            masked = getattr(layer, NAME, None)
            if isinstance(masked, MaskedLayer) and masked.masks_before:
                edge_index, weight, _ = given_edges(layer, None, len(self.x), edge_index, weight)
            else:
                edge_index, weight = gcn_norm(
                    edge_index, weight, len(self.x), key[0], key[1], layer.flow, self.x.dtype
                )
            values = {"edge_weight": weight}
        self._known[key] = Neighborhoods(edge_index, len(self.x)), values
        return self._known[key]

    @contextmanager
    def _normalized_before(self) -> Iterator[None]:
        """Layers take the weights that they are given."""
        layers = [one.layer for one in self.stages if isinstance(one.layer, NORMALIZED)]
        self._unnormalized = {layer for layer in layers if layer.normalize}
        with ExitStack() as stack:
            for layer in self._unnormalized:
                layer.normalize = False
                stack.callback(setattr, layer, "normalize", True)
            yield


def _union(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return None if one is None or other is None else torch.unique(torch.cat([one, other]))


def _read(state: State, nodes: Tensor) -> Tensor:
    return state.of(nodes) if isinstance(state, Rows) else state[nodes]
