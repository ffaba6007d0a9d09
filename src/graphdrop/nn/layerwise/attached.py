"""Layer-wise passes through an attached PyG model: its layers compute their rows in chunks.

The model's own `forward` runs. Every message passing layer in it computes a range of nodes at a
time, on the mini-batch of these nodes with all of their neighbours: masks and weights are those of
the whole graph.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch_geometric.nn import conv, norm
from torch_geometric.nn.models.basic_gnn import BasicGNN

from graphdrop.graph.csr import row_entries
from graphdrop.loading.batch import BatchGraph
from graphdrop.loading.whole import WholeGraph
from graphdrop.nn.attach.layer import MaskedLayer
from graphdrop.nn.features import LazyMatrix
from graphdrop.nn.layerwise.storage import Rows, States, with_neighbors
from graphdrop.nn.sampled import Handle, one_at_a_time
from graphdrop.nn.stack import ConvStack
from graphdrop.nn.state import call, evaluate_modules
from graphdrop.sampling.samplers import Draw

LOCAL = (
    *(conv.GCNConv, conv.GCN2Conv, conv.APPNP, conv.SAGEConv, conv.GATConv, conv.GATv2Conv),
    *(conv.GINConv, conv.PNAConv, conv.EdgeConv),
)
"""Layers whose output for a node, in each hop, depends on the edges into it."""
ROW_WISE = (nn.Identity, nn.BatchNorm1d, nn.LayerNorm, norm.BatchNorm)
"""Normalization layers whose output for a node depends on that node alone, in evaluation."""
CHUNK_EDGES = 1 << 19
"""Rows are computed together while they have so many edges."""
KEPT_EDGES = 1 << 24
"""Chunks are kept from layer to layer and from sample to sample while they have so many edges."""


class Chunk(NamedTuple):
    """Some nodes with every node that they read, as a mini-batch."""

    rows: int
    """The number of nodes whose outputs are wanted, the first ones."""
    batch: BatchGraph
    edge_index: Tensor
    """All edges into the wanted nodes, in the numbers of the mini-batch."""
    edges: Tensor
    """The numbers of these edges in the whole graph's `edge_index`."""


class LayerwiseModel:
    """The passes of an attached model over a graph, every layer in chunks of rows.

    Args:
        handle: of a model whose layers read the edges into a node alone.
        x: features of all nodes.
        data: the PyG `Data` with the edges.
        states: where the outputs of layers are stored.
        rows: the nodes whose outputs are wanted; all by default.
    """

    def __init__(
        self, handle: Handle, x: Rows, data: Any, states: States, rows: Tensor | None
    ) -> None:
        self.handle, self.states, self.rows = handle, states, rows
        self.masked = list[MaskedLayer]()
        for masked in handle.layers.values():
            layer: Any = masked.owner
            local = isinstance(layer, LOCAL) and layer.flow == "source_to_target"
            if not (isinstance(masked, MaskedLayer) and local):
                raise ValueError(
                    f"the layer {layer} may read more than the edges into a node: layerwise=True "
                    f"takes {', '.join(kind.__name__ for kind in LOCAL)} with "
                    "flow='source_to_target'; predict without layerwise"
                )
            self.masked.append(masked)
        for name in ("sample_dropout", "batch_statistics"):
            if getattr(handle.defaults, name):
                raise ValueError(
                    f"the model was attached with {name}=True, which acts on all nodes at once: "
                    "predict without layerwise, or attach without it"
                )
        edges = data.edge_index
        if not isinstance(edges, Tensor) or edges.layout is not torch.strided:
            raise TypeError(
                f"edge_index is of type {type(edges).__name__}; with layerwise=True an attached "
                "model takes a tensor [2, E]."
            )
        self.whole = WholeGraph(edges, len(x), getattr(data, "edge_weight", None))
        self.indptr = torch.from_numpy(self.whole.indptr)
        self.source = torch.from_numpy(self.whole.source)
        self.data = copy.copy(data)
        self.data.x = LazyMatrix.of(x, x.dtype) if x.stored is None else x.stored
        # the nodes that each hop computes, None for all; a model of the user's own may compute more
        hops = sum(getattr(masked.owner, "K", 1) for masked in self.masked)
        wanted = rows if _is_row_wise(handle.model) else None
        self.needed = [None if wanted is None else wanted.sort().values]
        while len(self.needed) < hops:
            self.needed.insert(0, with_neighbors(self.indptr, self.source, self.needed[0]))
        self._hop = 0
        self._kept: dict[int, list[Chunk]] = {}

    @torch.no_grad()
    def samples(self, draws: Iterable[Draw | None]) -> Iterator[Tensor]:
        """The outputs `[rows, out]` of several draws, one by one."""
        model = self.handle.model
        for draw in draws:
            modes = evaluate_modules(model, dropout=False, batch_statistics=False)
            with one_at_a_time, modes, self.handle.drawing(draw), ExitStack() as stack:
                for masked in self.masked:
                    layer, forward = masked.owner, masked.owner.forward
                    stack.callback(setattr, layer, "forward", forward)
                    layer.forward = partial(self._forward, masked, forward)
                self._hop = 0
                out = call(model, self.data)
            yield out if self.rows is None else out[self.rows]

    def _forward(
        self, masked: MaskedLayer, forward: Callable[..., Tensor], *arguments: Any, **options: Any
    ) -> Tensor:
        """The output of a layer for all nodes that are read."""
        layer: Any = masked.owner
        given = inspect.signature(type(layer).forward).bind(layer, *arguments, **options).arguments
        del given["self"]
        if not isinstance(layer, conv.APPNP):
            return self._compute_hop(masked, forward, given)
        # a step of APPNP goes back to its own input: the difference to the first one is added
        start, hops, layer.K = given["x"], layer.K, 1
        try:
            state = start
            for hop in range(hops):
                out = self._compute_hop(masked, forward, {**given, "x": state})
                state = out + layer.alpha * (start - state) if hop else out
        finally:
            layer.K = hops
        return cast("Tensor", state)

    def _compute_hop(
        self, masked: MaskedLayer, forward: Callable[..., Tensor], given: dict[str, Any]
    ) -> Tensor:
        rows, out = self.needed[min(self._hop, len(self.needed) - 1)], None
        self._hop += 1
        first = masked.calls
        for chunk in self._chunks(rows):
            nodes = chunk.batch.n_id
            own = {n: _select(n, value, nodes, chunk.edges) for n, value in given.items()}
            masked.calls = first
            masked.enter_batch(chunk.batch)
            try:
                part = forward(**{**own, "edge_index": chunk.edge_index})[: chunk.rows]
            finally:
                masked.leave_batch()
            out = self.states.empty(1, part.shape[1])[:, 0] if out is None else out
            out[nodes[: chunk.rows]] = part
        if out is None:
            raise ValueError("rows is empty; it takes at least one node.")
        return out

    def _chunks(self, rows: Tensor | None) -> Iterator[Chunk]:
        """The wanted nodes in chunks: of `batch_size` rows, or of `CHUNK_EDGES` edges."""
        if id(rows) in self._kept:
            yield from self._kept[id(rows)]
            return
        wanted = torch.arange(self.whole.num_nodes) if rows is None else rows
        edges = self.indptr.diff()[wanted].add_(1).cumsum(0)
        keeps = not len(edges) or int(edges[-1]) * len(set(map(id, self.needed))) < KEPT_EDGES
        first, chunks = 0, list[Chunk]()
        while first < len(wanted):
            before = int(edges[first - 1]) if first else 0
            last = int(torch.searchsorted(edges, before + CHUNK_EDGES, right=True))
            last = max(last, first + 1)
            if self.states.batch_size is not None:
                last = first + self.states.batch_size
            chunk = self._chunk(wanted[first:last])
            yield chunk
            if keeps:
                chunks.append(chunk)
            first = last
        if keeps:
            self._kept[id(rows)] = chunks

    def _chunk(self, wanted: Tensor) -> Chunk:
        """The mini-batch of some nodes, in increasing order, with all of their neighbours."""
        position, indptr = row_entries(self.indptr, wanted)
        source = self.source[position].long()
        column = torch.searchsorted(wanted, source).clamp_(max=len(wanted) - 1)
        inside = wanted[column] == source
        others, number = torch.unique(source[~inside], return_inverse=True)
        column[~inside] = number + len(wanted)
        batch = BatchGraph(
            self.whole,
            torch.cat([wanted, others]),
            indptr.numpy(),
            column.numpy(),
            position.numpy(),
            num_outputs=len(wanted),
        )
        row = torch.arange(len(wanted)).repeat_interleave(indptr.diff())
        edges = torch.from_numpy(self.whole.e_id).long()[position]
        return Chunk(len(wanted), batch, torch.stack([column, row]), edges)


def _select(name: str, value: Any, nodes: Tensor, edges: Tensor) -> Any:
    """The part of an argument of a layer that belongs to a chunk."""
    if isinstance(value, LazyMatrix) and isinstance(value.matrix, Rows):
        return value.matrix.read_dense(nodes)
    if not isinstance(value, Tensor) or name == "edge_index":
        return value
    return value[edges if name.startswith("edge_") else nodes]


def _is_row_wise(model: nn.Module) -> bool:
    """Whether a model calls its layers one by one, and all else works on the rows of nodes."""
    basic = isinstance(model, BasicGNN) and type(model).forward is BasicGNN.forward
    if not (basic or isinstance(model, ConvStack)):
        return False
    return all(
        isinstance(part, ROW_WISE) or (isinstance(part, norm.LayerNorm) and part.mode == "node")
        for part in cast("nn.ModuleList", model.norms)
    )
