"""The sums over a mask's draws count every draw that is read, and each of them once."""

from dataclasses import astuple, replace

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from contracts.edge_lists import edge_lists, for_all
from contracts.masked_sums import normal, power_law_edges
from graphdrop.graph import Graph, Normalization
from graphdrop.graph.masks import Kind, Mask, Sharing, stream_key
from graphdrop.kernels.reference import draw_values
from graphdrop.kernels.sums import DrawSums, draw_sums

FEATURES = (1, 2, 3, 16, 33, 100)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Whole graphs and parts of them, hand-sized or with hubs."""
    kind = draw(st.sampled_from(Normalization))
    if draw(st.booleans()):
        graph = draw(edge_lists()).graph(kind, self_loops=draw(st.booleans()))
    else:
        edge_index = power_law_edges(draw(st.integers(1, 30)), 150, draw(st.integers(0, 99)))
        graph = Graph.from_edge_index(edge_index, 40, normalization=kind)
    if draw(st.booleans()):
        rows = draw(st.lists(st.integers(0, graph.num_dst - 1), unique=True))
        graph = graph.rows(torch.tensor(rows, dtype=torch.int64))
    return graph


@st.composite
def masks(draw: st.DrawFn, graph: Graph, features: int, per_edge: bool) -> Mask:
    """Any mask that an estimator may sum over, never certain to keep or to drop."""
    sharing = Sharing.EDGE if per_edge else draw(st.sampled_from(Sharing))
    seed = draw(st.integers(0, 10**6))
    logit = torch.tensor(draw(st.floats(-6.0, 6.0, width=32)))
    return Mask(
        draw(st.sampled_from((Kind.HARD, Kind.CONCRETE))),
        logit + normal((graph.parent or graph).num_edges, seed=seed) if per_edge else logit,
        stream_key(seed),
        sharing=sharing,
        blocks=draw(st.sampled_from([b for b in (1, 2, 3, None) if b is None or b <= features])),
        symmetric=not per_edge and sharing is Sharing.EDGE and draw(st.booleans()),
        self_loops=draw(st.booleans()),
        antithetic=draw(st.booleans()),
        before_normalization=graph.parent is None and draw(st.booleans()),
    )


def edge_names(graph: Graph) -> list[tuple[int, int, int]]:
    rank = torch.zeros(graph.num_edges) if graph.rank is None else graph.rank
    ends = (graph.draw_dst, graph.draw_src, rank.long())
    return list(zip(*(end.tolist() for end in ends), strict=True))


def drawn_edges(graph: Graph, mask: Mask, features: int) -> dict[tuple[object, ...], Tensor]:
    """Each distinct draw with its name: the node, the pair or the edge that it belongs to."""
    mask = replace(mask, antithetic=False)
    values = draw_values(graph, mask, features, torch.arange(graph.num_edges))
    loops_drawn = mask.self_loops and not mask.before_normalization
    found: dict[tuple[object, ...], Tensor] = {}
    for edge, (destination, source, rank) in enumerate(edge_names(graph)):
        if destination == source and not loops_drawn:
            continue
        name: tuple[object, ...] = (destination, source, rank)
        if mask.symmetric:
            name = (frozenset((destination, source)), rank)
        if mask.sharing is Sharing.SOURCE:
            name = (source,)
        assert torch.equal(found.setdefault(name, values[edge]), values[edge])
    return found


def by_hand(values: Tensor, keep_logit: Tensor) -> tuple[int, int, int, int]:
    uniform = (values.double() + 0.5) / 2**16
    drop = torch.sigmoid(-keep_logit.double())
    # as the kernel: the drop probability to the nearest of 65536ths
    drop = (drop * 2**16).round() / 2**16
    kept, opposite = int((uniform > drop).sum()), int((1.0 - uniform > drop).sum())
    return values.numel(), int(values.sum()), kept, opposite


def assert_same(first: DrawSums, second: DrawSums) -> None:
    for one, other in zip(astuple(first), astuple(second), strict=True):
        assert one.dtype == torch.int64
        assert torch.equal(one, other)


@for_all(st.data())
def test_every_draw_that_is_read_counts_once(data: st.DataObject) -> None:
    graph, features = data.draw(graphs()), data.draw(st.sampled_from(FEATURES))
    mask = data.draw(masks(graph, features, per_edge=False))
    sums = draw_sums(graph, mask, features)
    values = list(drawn_edges(graph, mask, features).values())
    wanted = by_hand(torch.stack(values) if values else torch.empty(0), mask.keep_logit)
    assert tuple(int(each) for each in astuple(sums)[:4]) == wanted


@for_all(st.data())
def test_with_a_rate_for_each_edge_every_edge_has_its_own_sums(data: st.DataObject) -> None:
    graph, features = data.draw(graphs()), data.draw(st.sampled_from(FEATURES))
    mask = data.draw(masks(graph, features, per_edge=True))
    sums = draw_sums(graph, mask, features)
    found, listed = drawn_edges(graph, mask, features), [s.tolist() for s in astuple(sums)[:4]]
    whole = edge_names(graph.parent or graph)
    for edge, name in enumerate(whole):  # no draw of those that are not in the part
        wanted = by_hand(found.get(name, torch.empty(0)), mask.keep_logit[edge])
        assert wanted == tuple(each[edge] for each in listed)


@for_all(st.data())
def test_the_fused_loop_and_plain_torch_agree_bit_for_bit(data: st.DataObject) -> None:
    graph, features = data.draw(graphs()), data.draw(st.sampled_from(FEATURES))
    mask = data.draw(masks(graph, features, per_edge=data.draw(st.booleans())))
    fused, plain = (draw_sums(graph, mask, features, backend=b) for b in ("fused", "reference"))
    assert_same(fused, plain)


def dense_graph(nodes: int = 8) -> Graph:
    everyone = torch.arange(nodes)
    return Graph.from_edge_index(torch.cartesian_prod(everyone, everyone).T, nodes)


@pytest.mark.parametrize(
    ("norm", "symmetric"),
    [
        (Normalization.SYM, False),
        (Normalization.SYM, True),
        (Normalization.ROW, True),
        (Normalization.PAPER, False),
        (Normalization.NONE, True),
    ],
)
def test_masks_before_normalization_read_the_rows_of_their_degrees(
    norm: Normalization, symmetric: bool
) -> None:
    whole = Graph.from_edge_index(power_law_edges(40, 200), 40, normalization=norm)
    part = whole.rows(torch.tensor([5, 3, 17]))
    mask = Mask(
        Kind.HARD, torch.tensor(0.4), stream_key(2), symmetric=symmetric, before_normalization=True
    )
    assert part.dst_ids is not None
    assert part.src_ids is not None
    rows = set(part.dst_ids.tolist())
    if norm in (Normalization.SYM, Normalization.PAPER):
        rows |= set(part.src_ids.tolist())
    read = whole.rows(torch.tensor(sorted(rows)))
    values = list(drawn_edges(read, mask, 6).values())
    assert len(values) < len(drawn_edges(whole, mask, 6))
    sums = draw_sums(part, mask, 6)
    wanted = by_hand(torch.stack(values), mask.keep_logit)
    assert tuple(int(each) for each in astuple(sums)[:4]) == wanted
    if not symmetric:
        local = replace(mask, keep_logit=torch.full((whole.num_edges,), 0.4))
        each = draw_sums(part, local, 6)
        assert tuple(int(one.sum()) for one in astuple(each)[:4]) == wanted


def test_two_thresholds_on_one_draw_are_refused() -> None:
    graph = dense_graph()
    logit = torch.zeros(graph.num_edges)
    for shared in ({"symmetric": True}, {"sharing": Sharing.SOURCE}):
        mask = Mask(Kind.HARD, logit, stream_key(0), **shared)
        with pytest.raises(ValueError, match="two thresholds on one draw"):
            draw_sums(graph, mask, 3)
    mask = Mask(Kind.HARD, torch.zeros(5), stream_key(0))
    with pytest.raises(ValueError, match=r"has 5 entries; .* each of the 64 edges"):
        draw_sums(graph, mask, 3)


@pytest.mark.parametrize("kind", [Kind.NONE, Kind.MEAN])
def test_a_mask_that_is_not_drawn_has_no_sums(kind: Kind) -> None:
    with pytest.raises(
        ValueError, match=f"mask has kind '{kind}'; it takes a hard or concrete mask"
    ):
        draw_sums(dense_graph(), Mask(kind, torch.tensor(0.0), stream_key(0)), 3)
