"""A part of a graph computes just the rows that are read, exactly as the whole would."""

import itertools

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from contracts.edge_lists import EdgeList, dense, edge_lists, for_all
from graphdrop.graph import Graph, Normalization

KITE = EdgeList(
    5, [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 4), (0, 1)], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
)


@st.composite
def graphs_with_rows(draw: st.DrawFn) -> tuple[Graph, list[int]]:
    edges = draw(edge_lists())
    kind = draw(st.sampled_from(Normalization))
    graph = edges.graph(kind, self_loops=draw(st.booleans()))
    rows = draw(st.lists(st.integers(0, edges.num_nodes - 1), unique=True))
    return graph, rows


def row_tensor(rows: list[int]) -> Tensor:
    return torch.tensor(rows, dtype=torch.int64)


def ids(tensor: Tensor | None) -> list[int]:
    assert tensor is not None
    return [int(node) for node in tensor]


def test_a_part_by_hand() -> None:
    part = KITE.graph("none").rows(torch.tensor([4, 1]))
    assert ids(part.dst_ids) == [4, 1]
    assert ids(part.src_ids) == [0, 2, 3]
    assert part.indptr.tolist() == [0, 1, 4]
    assert part.indices.tolist() == [2, 0, 0, 1]
    assert part.value.tolist() == [6.0, 1.0, 7.0, 4.0]
    assert part.draw_dst.tolist() == [4, 1, 1, 1]
    assert part.draw_src.tolist() == [3, 0, 0, 2]
    assert part.t_indices.tolist() == [1, 1, 1, 0]
    assert part.t_draw_dst.tolist() == [1, 1, 1, 4]
    assert part.t_value.tolist() == [1.0, 7.0, 4.0, 6.0]
    assert ids(part.rank) == [0, 0, 1, 0]
    assert ids(part.t_rank) == [0, 1, 0, 0]


@for_all(graphs_with_rows())
def test_a_part_is_those_rows_of_the_matrix(case: tuple[Graph, list[int]]) -> None:
    graph, rows = case
    part = graph.rows(row_tensor(rows))
    assert ids(part.dst_ids) == rows
    wide = torch.zeros(len(rows), graph.num_src, dtype=torch.float64)
    wide[:, row_tensor(ids(part.src_ids))] = dense(part)
    assert torch.equal(wide, dense(graph)[row_tensor(rows)])


@for_all(graphs_with_rows())
def test_an_edge_of_a_part_is_the_edge_of_the_whole(case: tuple[Graph, list[int]]) -> None:
    graph, rows = case
    part = graph.rows(row_tensor(rows))
    assert part.parent is graph
    edge = part.parent_edge
    assert edge is not None
    for name in ("weight", "value", "draw_dst", "draw_src", "self_loop"):
        assert torch.equal(getattr(part, name), getattr(graph, name)[edge]), name
    rank = torch.zeros(graph.num_edges, dtype=torch.int32) if graph.rank is None else graph.rank
    assert ids(rank[edge]) == (ids(part.rank) if part.rank is not None else [0] * part.num_edges)


@for_all(graphs_with_rows(), st.integers(1, 4))
def test_a_receptive_field_is_the_nodes_within_that_many_steps(
    case: tuple[Graph, list[int]], layers: int
) -> None:
    graph, rows = case
    pattern = torch.zeros(graph.num_dst, graph.num_src, dtype=torch.bool)
    pattern[graph.edge_dst.long(), graph.indices.long()] = True
    field = graph.receptive_field(row_tensor(rows), layers)
    assert len(field) == layers
    assert ids(field[-1].dst_ids) == rows
    reached = set(rows)
    for part in reversed(field):
        assert set(ids(part.dst_ids)) == reached
        reached = {u for v in reached for u in pattern[v].nonzero().flatten().tolist()}
        assert ids(part.src_ids) == sorted(reached)
    for earlier, later in itertools.pairwise(field):
        assert ids(earlier.dst_ids) == ids(later.src_ids)


@for_all(graphs_with_rows(), st.integers(1, 3))
def test_layers_over_a_receptive_field_give_the_rows_of_the_whole_product(
    case: tuple[Graph, list[int]], layers: int
) -> None:
    graph, rows = case
    features = torch.rand(graph.num_src, 3, generator=torch.Generator().manual_seed(0)).double()
    whole = features
    for _ in range(layers):
        whole = torch.tanh(dense(graph) @ whole)
    field = graph.receptive_field(row_tensor(rows), layers)
    part = features[row_tensor(ids(field[0].src_ids))]
    for layer in field:
        part = torch.tanh(dense(layer) @ part)
    torch.testing.assert_close(part, whole[row_tensor(rows)], rtol=1e-12, atol=1e-12)


def test_a_receptive_field_wants_a_whole_graph_and_a_layer() -> None:
    graph, rows = KITE.graph(), torch.tensor([0, 1])
    with pytest.raises(ValueError, match="layers is 0; it takes"):
        graph.receptive_field(rows, 0)
    with pytest.raises(ValueError, match=r"graph is a part; .*Use graph\.parent"):
        graph.rows(rows).receptive_field(rows, 1)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([0, 1], TypeError, "rows is of type list; it takes a tensor"),
        (torch.tensor([0.0]), TypeError, "rows is of type torch.float32; it takes"),
        (torch.tensor([[0]]), ValueError, r"rows has shape \(1, 1\); it takes one dimension"),
        (
            torch.tensor([True]),
            ValueError,
            r"rows has shape \(1,\); a bool mask takes shape \[5\]",
        ),
        (torch.tensor([0, 5]), ValueError, r"rows contains 5; it takes 0\.\.4"),
        (torch.tensor([3, -1]), ValueError, r"rows contains -1; it takes 0\.\.4"),
        (torch.tensor([3, 0, 3]), ValueError, "rows names 3 more than once"),
    ],
)
def test_rows_that_cannot_be_computed_are_refused(
    rows: Tensor, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        KITE.graph().rows(rows)
