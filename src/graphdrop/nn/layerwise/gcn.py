"""Layer-wise passes through a `GCN`: every layer for all nodes it is read at, then the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor

from graphdrop.graph import Graph
from graphdrop.kernels.samples import stackable
from graphdrop.nn.conv import SampledGCNConv
from graphdrop.nn.layerwise import convolution
from graphdrop.nn.layerwise.convolution import Prepared, State
from graphdrop.nn.layerwise.features import Rows
from graphdrop.nn.layerwise.reach import with_neighbors
from graphdrop.nn.layerwise.states import States
from graphdrop.nn.models import DRAWN_TOGETHER, GCN
from graphdrop.nn.plan import LayerPass, layer_passes, takes_sparse
from graphdrop.nn.skip_connections import INITIAL
from graphdrop.sampling.samplers import Draw


class LayerwiseGCN:
    """The passes of a `GCN` over a graph, layer by layer.

    Args:
        model: the network.
        x: features of all nodes.
        graph: normalized as the network takes it.
        states: where hidden states are stored.
        rows: the nodes whose outputs are wanted; all by default.
    """

    def __init__(
        self, model: GCN, x: Rows, graph: Graph, states: States, rows: Tensor | None
    ) -> None:
        self.model, self.x, self.graph, self.states, self.rows = model, x, graph, states, rows
        self.convs, self.between = model._convs, model.between
        # the nodes whose inputs and outputs a layer computes, the features first; None for all
        self.needed = [rows]
        for _ in self.convs:
            self.needed.insert(0, with_neighbors(graph.indptr, graph.indices, self.needed[0]))
        self._first: Prepared | None = None  # of the first layer, for all groups of samples
        self._sparse: bool | None = None

    @torch.no_grad()
    def samples(self, draws: Iterable[Draw | None]) -> Iterator[Tensor]:
        """The outputs ``[rows, out]`` of several draws, one by one."""
        draws = iter(draws)
        while together := list(islice(draws, DRAWN_TOGETHER)):
            passes = [
                list(layer_passes(layer, self.graph, together, number))
                for number, layer in enumerate(self.convs)
            ]
            step = self._at_once(passes)
            for first in range(0, len(together), step):
                group = slice(first, first + step)
                out = self._group([one[group] for one in passes], together[group])
                yield from out.unbind(1)

    def _group(self, passes: list[list[LayerPass]], draws: list[Draw | None]) -> Tensor:
        """The outputs of samples side by side, ``[rows, samples, out]``."""
        x: State = self.x
        every, between = list[Tensor](), self.between
        for number, layer in enumerate(self.convs):
            last = number + 1 == len(self.convs)
            # of its own, so that what is derived from these masks goes with it
            graph = self.graph.with_values(self.graph.value)
            prepared = self._prepared(number, layer, graph, x, passes[number])
            count, width = len(draws), layer.out_channels
            rows = self.needed[number + 1]
            size = self.graph.num_dst if rows is None else len(rows)
            ends = between.out_channels if last else width
            packed = last or rows is None  # row by row as computed, not by node
            out = (
                torch.empty(size, count, ends, dtype=layer.weight.dtype)
                if last
                else self.states.empty(count, width)
            )
            widest = count * max(width, prepared.terms.shape[2])
            for span in convolution.windows(graph, self.states, widest, rows):
                window = convolution.window_of(graph, span, rows)
                target = out[slice(*span)] if packed else None
                part = convolution.convolved(
                    layer, window, prepared, passes[number], None if last else target
                )
                nodes = window.dst_ids
                assert nodes is not None  # noqa: S101 - a window has ids
                if not last or between.head is not None:
                    part = self._follow(number, part, x, every, nodes)
                if last:
                    states = every if between.joins else []
                    part = between.join([*(state[nodes.long()] for state in states), part])
                if target is None:
                    out[nodes.long()] = part
                elif part.data_ptr() != target.data_ptr():
                    target.copy_(part)
            del prepared
            if not last:
                every.append(out)
                x = out
                self._forget(every)
        return out

    def _prepared(
        self,
        number: int,
        layer: SampledGCNConv,
        graph: Graph,
        x: State,
        passes: Sequence[LayerPass],
    ) -> Prepared:
        shared = number == 0 and not convolution.drops_features(layer, passes)
        if shared and self._first is not None:
            return self._first
        prepared = convolution.prepare(
            layer, graph, x, passes, self.states, nodes=self.needed[number]
        )
        if shared:
            self._first = prepared
        return prepared

    def _follow(
        self, number: int, out: Tensor, x: State, every: list[Tensor], nodes: Tensor
    ) -> Tensor:
        """A hidden layer's outputs with what follows a convolution, by rows."""
        between, index = self.between, nodes.long()

        def own() -> Tensor:
            return x.of(index)[:, None] if isinstance(x, Rows) else x[index]

        out = out.relu_() if between.plain else out
        plain = between.residual is True and isinstance(x, Rows) and self._is_sparse(x)
        rows = None if plain else own
        return between.follow(number, out, rows, lambda: every[0][index], training=False)

    def _is_sparse(self, x: State) -> bool:
        """Whether a full-batch pass reads these features as sparse, which has no residual."""
        if not isinstance(x, Rows):
            return False
        if self._sparse is None:
            self._sparse = takes_sparse(self.convs[0]) and x.few_nonzeros
        return self._sparse

    def _forget(self, every: list[Tensor]) -> None:
        """Drop the states that no later layer reads."""
        if self.between.joins:
            return
        first = 1 if self.between.residual == INITIAL else 0
        del every[first:-1]

    def _at_once(self, passes: list[list[LayerPass]]) -> int:
        """How many samples are computed side by side: 1 if the kernel cannot."""
        needed, shared, kept = 0, 0, 0
        last = len(self.convs) - 1
        for number, (layer, own) in enumerate(zip(self.convs, passes, strict=True)):
            masks = convolution.masks_of_sum(layer, own)
            like = layer.weight.new_empty(1, layer.in_channels)
            if masks and not stackable(self.graph, like, masks):
                return 1
            terms = convolution.terms_width(layer, self.graph, own, first=number == 0)
            if number == 0 and not convolution.drops_features(layer, own):
                shared, terms = terms, 0
            before = layer.in_channels if number else 0
            after = layer.out_channels if number < last else self.between.out_channels
            needed = max(needed, kept + before + terms + after)
            if self.between.joins or (number and self.between.residual == INITIAL):
                kept += before
        most, count = self.states.at_once(needed, shared), len(passes[0])
        return -(-count // -(-count // most))  # groups of equal sizes
