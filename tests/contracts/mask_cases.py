"""Graphs, masks, features and gradients of any kind, for backends that compute the same sums."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from contracts.edge_lists import edge_lists
from contracts.masked_sums import assert_fused_is_exact, normal, power_law_edges
from graphdrop.graph import Graph, Normalization
from graphdrop.graph.masks import Kind, Mask, Sharing, stream_key

LAYOUTS = ("contiguous", "transposed", "every other row", "every other column", "beside nan")
FEATURES = (1, 7, 16)
"""All in one vector of 16 floats: each number of vectors is compiled anew."""


def laid_out(tensor: Tensor, layout: str) -> Tensor:
    """The same numbers in another order of memory."""
    rows, columns = tensor.shape
    nan = torch.full_like(tensor, torch.nan)
    if layout == "transposed":
        return tensor.T.contiguous().T
    if layout == "every other row":
        return torch.stack([tensor, nan], 1).reshape(2 * rows, columns)[::2]
    if layout == "every other column":
        return torch.stack([tensor, nan], 2).reshape(rows, 2 * columns)[:, ::2]
    if layout == "beside nan":  # a vector that reads past the last row meets them
        beside = torch.full((64,), torch.nan)
        return torch.cat([beside, tensor.flatten(), beside])[64:-64].view(rows, columns)
    return tensor


@dataclass(frozen=True)
class Case:
    """A graph and a mask, features and a gradient in some order of memory."""

    graph: Graph
    mask: Mask
    x: Tensor
    gradient: Tensor

    def check(self, backend: str = "fused") -> None:
        assert_fused_is_exact(self.graph, self.x, self.mask, self.gradient, backend)


@st.composite
def graphs(draw: st.DrawFn, edges: int = 400) -> Graph:
    """Whole graphs and parts of them, hand-sized or with hubs, some weights negative."""
    kind, loops = draw(st.sampled_from(Normalization)), draw(st.booleans())
    if draw(st.booleans()):
        graph = draw(edge_lists()).graph(kind, self_loops=loops)
    else:
        nodes = 3 * edges // 20
        edge_index = power_law_edges(draw(st.integers(1, nodes)), edges, draw(st.integers(0, 99)))
        weight = None
        if kind in (Normalization.ROW, Normalization.NONE) and draw(st.booleans()):
            weight = normal(edges, seed=draw(st.integers(0, 99)))
        graph = Graph.from_edge_index(
            edge_index, nodes + nodes // 6, weight, normalization=kind, self_loops=loops
        )
    if draw(st.booleans()):
        rows = draw(st.lists(st.integers(0, graph.num_dst - 1), unique=True))
        graph = graph.rows(torch.tensor(rows, dtype=torch.int64))
    return graph


@st.composite
def cases(
    draw: st.DrawFn,
    kind: Kind,
    per_edge: bool,
    edges: int = 400,
    widths: Sequence[int] = FEATURES,
) -> Case:
    """A mask of this kind, with one keep logit or one per edge, and whatever it takes besides."""
    graph, features = draw(graphs(edges)), draw(st.sampled_from(widths))
    seed = draw(st.integers(0, 10**6))
    logit = torch.tensor(draw(st.floats(-6.0, 6.0, width=32)))
    whole = graph.parent or graph  # a rate per edge is one of the whole graph
    sharing = draw(st.sampled_from(Sharing))
    mask = Mask(
        kind,
        logit + normal(whole.num_edges, seed=seed) if per_edge else logit,
        stream_key(seed, step=draw(st.integers(0, 3))),
        sharing=sharing,
        blocks=draw(st.sampled_from([b for b in (1, 2, 3, 5, None) if b is None or b <= features])),
        symmetric=sharing is Sharing.EDGE and draw(st.booleans()),
        self_loops=draw(st.booleans()),
        temperature=draw(st.sampled_from((0.3, 0.67, 2.0))),
        antithetic=draw(st.booleans()),
    )
    x, gradient = (normal(rows, features, seed=seed) for rows in (graph.num_src, graph.num_dst))
    layout = st.sampled_from(LAYOUTS)
    return Case(graph, mask, laid_out(x, draw(layout)), laid_out(gradient, draw(layout)))
