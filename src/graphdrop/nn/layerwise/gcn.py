"""Layer-wise passes through a `GCN`: every layer for all nodes it is read at, then the next.

A convolution takes the steps of `SampledGCNConv` for several samples side by side, a range of rows
at a time: first the terms of the sum, node by node, then the sum over neighbours with what follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

import torch
from torch import Tensor

from graphdrop.graph import Graph
from graphdrop.graph.masks import Mask
from graphdrop.kernels.samples import aggregate_stacked, stackable
from graphdrop.nn.conv import LayerPass, SampledGCNConv
from graphdrop.nn.layerwise.storage import Rows, States, with_neighbors
from graphdrop.nn.models import DRAWN_TOGETHER, GCN
from graphdrop.nn.skip_connections import INITIAL
from graphdrop.sampling.samplers import Draw

State = Rows | Tensor
"""The input of a layer: the features that all samples share, or ``[nodes, samples, width]``."""


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
        self.x, self.graph, self.states = x, graph, states
        self.convs, self.between = model.convs, model.between
        # the nodes whose inputs and outputs a layer computes, the features first; None for all
        self.needed = [rows]
        for _ in self.convs:
            self.needed.insert(0, with_neighbors(graph.indptr, graph.indices, self.needed[0]))
        self._first_terms: tuple[Tensor, int] | None = None  # for all groups of samples

    @torch.no_grad()
    def samples(self, draws: Iterable[Draw | None]) -> Iterator[Tensor]:
        """The outputs ``[rows, out]`` of several draws, one by one."""
        draws = iter(draws)
        while together := list(islice(draws, DRAWN_TOGETHER)):
            passes = [
                list(conv.passes(self.graph, together, i)) for i, conv in enumerate(self.convs)
            ]
            size = self._count_samples(passes)
            for first in range(0, len(together), size):
                group = [drawn[first : first + size] for drawn in passes]
                yield from self._compute(group).unbind(1)

    def _compute(self, passes: list[list[LayerPass]]) -> Tensor:
        """The outputs of samples side by side, ``[rows, samples, out]``."""
        x: State = self.x
        outputs, between, count = list[Tensor](), self.between, len(passes[0])
        for i, conv in enumerate(self.convs):
            last, rows = i + 1 == len(self.convs), self.needed[i + 1]
            # of its own, so that what is derived from these masks goes with it
            graph = self.graph.with_values(self.graph.value)
            terms, parts = self._terms(i, graph, x, passes[i])
            if last:
                size = graph.num_dst if rows is None else len(rows)
                out = torch.empty(size, count, between.out_channels, dtype=conv.weight.dtype)
            else:
                out = self.states.empty(count, conv.out_channels)
            widest = count * max(conv.out_channels, terms.shape[2])
            for span in self.states.spans(widest, rows):
                window = graph.window(span if rows is None else rows[slice(*span)])
                part = _convolve(conv, window, terms, parts, passes[i])
                # a range is a view of a state, and copies nothing
                nodes = slice(*span) if rows is None else rows[slice(*span)]
                if not last or between.head is not None:
                    part = between.follow(
                        i,
                        part,
                        partial(_read, x, nodes),
                        partial(_read, outputs[0] if outputs else x, nodes),
                        training=False,
                    )
                if last:
                    states = [state[nodes] for state in outputs] if between.joins else []
                    part = between.join([*states, part])
                out[slice(*span) if last else nodes] = part
            del terms
            outputs.append(out)
            x = out
            if not between.joins:  # drop the states that no later layer reads
                del outputs[1 if between.residual == INITIAL else 0 : -1]
        return out

    def _terms(
        self, i: int, graph: Graph, x: State, passes: Sequence[LayerPass]
    ) -> tuple[Tensor, int]:
        """The terms of the sum of a layer, ``[nodes, samples or 1, terms]``, and their parts."""
        conv, nodes = self.convs[i], self.needed[i]
        drops, mask = any(map(conv.drops, passes)), next(iter(_masks_of_sum(conv, passes)), None)
        if i == 0 and not drops and self._first_terms is not None:
            return self._first_terms
        parts = conv.count_parts(graph, mask, first=i == 0)
        if not drops and not parts:
            if isinstance(x, Tensor):
                return x, 0
            if x.stored is not None:
                return x.stored[:, None], 0
        width = parts * conv.out_channels if parts else conv.in_channels
        count = len(passes) if drops or i else 1
        terms = self.states.empty(count, width)
        for span in self.states.spans(count * max(width, conv.in_channels), nodes):
            at = slice(*span) if nodes is None else nodes[slice(*span)]
            ids = torch.arange(*span) if isinstance(at, slice) else at
            loops = Graph.loops(ids.to(graph.indices))
            for sample in range(count):
                rows = x.read(at) if isinstance(x, Rows) else x[at, sample]
                rows = conv.drop(rows, loops, passes[sample]) if drops else rows
                terms[at, sample] = conv.terms(rows, parts, mask, graph.num_src)
        if i == 0 and not drops:
            self._first_terms = terms, parts
        return terms, parts

    def _count_samples(self, passes: list[list[LayerPass]]) -> int:
        """How many samples are computed side by side: 1 if the kernel cannot."""
        shared, widest = 0, 0
        for i, (conv, drawn) in enumerate(zip(self.convs, passes, strict=True)):
            masks, drops = _masks_of_sum(conv, drawn), any(map(conv.drops, drawn))
            row = conv.weight.new_empty(1, conv.in_channels)
            if masks and not stackable(self.graph, row, masks):
                return 1
            parts = conv.count_parts(self.graph, next(iter(masks), None), first=i == 0)
            terms = parts * conv.out_channels or conv.in_channels * drops
            if i == 0 and not drops:
                shared, terms = terms, 0
            widest = max(widest, conv.in_channels * bool(i) + terms + conv.out_channels)
        if self.between.joins or self.between.residual == INITIAL:
            widest += sum(conv.in_channels for conv in self.convs[1:])
        count, most = len(passes[0]), self.states.count_samples(widest, shared)
        return -(-count // -(-count // most))  # groups of equal sizes


def _masks_of_sum(conv: SampledGCNConv, passes: Sequence[LayerPass]) -> list[Mask]:
    """The masks of the sum over neighbours; none if nothing there is masked."""
    if conv.sampler is None or conv.sampler.on_features:
        return []
    return [drawn.sampler for drawn in passes if drawn.sampler is not None]


def _convolve(
    conv: SampledGCNConv, window: Graph, terms: Tensor, parts: int, passes: Sequence[LayerPass]
) -> Tensor:
    """The outputs of the rows of a window, ``[rows, samples, out]``."""
    masks, factors = zip(*(conv.mask_of_sum(window, drawn) for drawn in passes), strict=True)
    sums = aggregate_stacked(window, terms, [conv.mask_of_terms(mask, parts) for mask in masks])
    factor = None
    if any(own is not None for own in factors):
        given = [torch.ones(()) if own is None else own for own in factors]
        factor = torch.stack([own.expand(window.num_dst, 1) for own in given], 1)
    return conv.finish(sums.contiguous(), parts, factor)  # samples may share one sum


def _read(x: State, nodes: slice | Tensor) -> Tensor:
    return x.read_dense(nodes)[:, None] if isinstance(x, Rows) else x[nodes]
