"""The reference backend: plain torch, differentiable, on any device and in any float type.

It computes masks for a range of edges at a time and does not store them; the backward pass computes
them again. Tests compare with it, and devices without a fused kernel use it.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from graphdrop.graph import CSR, Graph
from graphdrop.graph.masks import (
    SOURCE_ONLY,
    Kind,
    Mask,
    Sharing,
    as_read,
    block_of_feature,
    draw_bits,
    edge_hash,
    multipliers,
)

MESSAGE_BYTES = 1 << 28
"""How many bytes of messages, masks and their bits may exist at once."""


def draw_values(graph: Graph, mask: Mask, features: int, edges: Tensor) -> Tensor:
    """The 16-bit draws that the given edges read, ``[edges, draws_per_edge]`` int64."""
    source, destination = graph.draw_src[edges].long(), graph.draw_dst[edges].long()
    rank = None if graph.rank is None else graph.rank[edges]
    if mask.symmetric:
        destination, source = torch.maximum(destination, source), torch.minimum(destination, source)
    if mask.sharing is Sharing.SOURCE:
        destination, rank = torch.full_like(source, SOURCE_ONLY), None
    bits = edge_hash(mask.key.to(source.device), destination, source, rank)
    index = torch.arange(mask.draws_per_edge(features), device=source.device)
    return as_read(draw_bits(bits[:, None], index), mask)


def materialize(
    graph: Graph,
    mask: Mask,
    features: int,
    edges: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """The mask as a matrix ``[edges, features]``, for tests, figures and small graphs."""
    if edges is None:
        edges = torch.arange(graph.num_edges, device=graph.indices.device)
    return edge_multipliers(graph, mask.of_edges(graph.parent_edge), features, edges, dtype)


def edge_multipliers(
    graph: Graph, mask: Mask, features: int, edges: Tensor, dtype: torch.dtype
) -> Tensor:
    """The same for a mask with a keep logit for each edge of this graph."""
    device = graph.indices.device
    if mask.kind is Kind.NONE:
        return torch.ones(len(edges), features, dtype=dtype, device=device)
    logit = mask.keep_logit.to(device)
    if logit.dim() == 1:
        logit = logit[edges][:, None]
    values = draw_values(graph, mask, features, edges)
    kept = multipliers(values, mask, logit, dtype)
    if not mask.self_loops:
        kept = torch.where(graph.self_loop[edges][:, None], torch.ones_like(kept), kept)
    return kept[:, block_of_feature(features, mask.blocks, device)]


def aggregate(graph: CSR, x: Tensor, mask: Mask, message_bytes: int = MESSAGE_BYTES) -> Tensor:
    """The masked neighbourhood sum, in the type and on the device of ``x``."""
    features = x.shape[1]
    # a message, its mask and their product, and the handful of 64-bit words that make one draw
    width = features * (3 * x.element_size() + 4 * 8)
    run = max(1, message_bytes // max(width, 1))

    def messages(x: Tensor, keep_logit: Tensor, edges: Tensor) -> Tensor:
        weight = graph.value[edges][:, None].to(x.dtype)
        if isinstance(graph, Graph):  # another matrix has no ids, hence no mask
            drawn = replace(mask, keep_logit=keep_logit)
            weight = weight * edge_multipliers(graph, drawn, features, edges, x.dtype)
        return weight * x[graph.indices[edges]]

    # only a concrete mask passes a gradient on; no edges are one empty run, so that x has one
    logit = mask.keep_logit if mask.kind is Kind.CONCRETE else mask.keep_logit.detach()
    out = x.new_zeros(graph.num_rows, features)
    for first in range(0, max(graph.num_entries, 1), run):
        edges = torch.arange(first, min(first + run, graph.num_entries), device=x.device)
        if run < graph.num_entries and torch.is_grad_enabled():
            part = checkpoint(
                messages, x, logit, edges, use_reentrant=False, preserve_rng_state=False
            )
        else:
            part = messages(x, logit, edges)
        # not index_add, which would keep the messages until the backward pass
        row = graph.entry_row[edges].long()[:, None]
        out = out.scatter_add_(0, row.expand(-1, features), part)
    return out
