"""A graph holds every edge once by destination and once by source, under the same number."""

import itertools
from collections import Counter
from random import Random

import pytest
import torch
from hypothesis import strategies as st

from contracts.edge_lists import EdgeList, dense, edge_lists, for_all
from graphdrop.graph import Graph
from graphdrop.graph import graph as graph_module

TWO_WAY = EdgeList(4, [(0, 1), (1, 0), (0, 1), (2, 1), (3, 3)], [1.0, 2.0, 3.0, 4.0, 5.0])


def numbered(edges: EdgeList) -> Graph:
    """A graph whose raw weights are the numbers of the edges in the input."""
    number = torch.arange(len(edges.edges), dtype=torch.float32)
    return Graph.from_edge_index(edges.edge_index, edges.num_nodes, number, normalization="none")


def test_a_small_graph_by_hand() -> None:
    graph = TWO_WAY.graph("none")
    assert graph.indptr.tolist() == [0, 1, 4, 4, 5]
    assert graph.indices.tolist() == [1, 0, 0, 2, 3]
    assert graph.weight.tolist() == [2.0, 1.0, 3.0, 4.0, 5.0]
    assert graph.rank is not None
    assert graph.rank.tolist() == [0, 0, 1, 0, 0]
    assert graph.t_indptr.tolist() == [0, 2, 3, 4, 5]
    assert graph.t_indices.tolist() == [1, 1, 0, 1, 3]
    assert graph.t_edge.tolist() == [1, 2, 0, 3, 4]
    assert graph.t_value.tolist() == [1.0, 3.0, 2.0, 4.0, 5.0]
    assert graph.t_rank is not None
    assert graph.t_rank.tolist() == [0, 1, 0, 0, 0]
    assert graph.edge_dst.tolist() == [0, 1, 1, 1, 3]
    assert graph.reverse.tolist() == [1, 0, -1, -1, 4]
    assert graph.self_loop.tolist() == [False, False, False, False, True]
    assert graph.degree.tolist() == [1, 3, 0, 1]
    assert graph.out_degree.tolist() == [2, 1, 1, 1]


@for_all(edge_lists(min_nodes=0))
def test_ranks_count_the_parallel_edges_that_came_before(edges: EdgeList) -> None:
    graph, seen, expected = numbered(edges), Counter[tuple[int, int]](), []
    for ends in edges.edges:
        expected.append(seen[ends])
        seen[ends] += 1
    if max(seen.values(), default=0) < 2:
        assert graph.rank is None
        assert graph.t_rank is None
    else:
        assert graph.rank is not None
        assert graph.t_rank is not None
        assert graph.rank.dtype == torch.int32
        assert graph.rank.tolist() == [expected[int(edge)] for edge in graph.weight]
        assert torch.equal(graph.t_rank, graph.rank[graph.t_edge])


@for_all(edge_lists(min_nodes=0))
def test_the_reverse_of_an_edge_has_its_ends_swapped_and_its_rank(edges: EdgeList) -> None:
    graph = edges.graph()
    rank = [0] * graph.num_edges if graph.rank is None else graph.rank.tolist()
    ends = list(zip(graph.edge_dst.tolist(), graph.indices.tolist(), rank, strict=True))
    number = {edge: position for position, edge in enumerate(ends)}
    expected = [number.get((source, destination, r), -1) for destination, source, r in ends]
    assert graph.reverse.tolist() == expected


@for_all(edge_lists(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_decides_only_the_order_of_parallel_edges(
    edges: EdgeList, random: Random
) -> None:
    order = list(range(len(edges.edges)))
    random.shuffle(order)
    shuffled = EdgeList(
        edges.num_nodes, [edges.edges[e] for e in order], [edges.weights[e] for e in order]
    )
    one, other = edges.graph(), shuffled.graph()
    for name in ("indptr", "indices", "t_indptr", "t_indices", "t_edge", "reverse", "self_loop"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    if one.rank is None:
        assert other.rank is None
        torch.testing.assert_close(one.value, other.value, rtol=1e-6, atol=0)
    else:
        assert other.rank is not None
        assert torch.equal(one.rank, other.rank)
        torch.testing.assert_close(dense(one), dense(other))


@for_all(edge_lists(parallel=False))
def test_every_node_gets_the_loop_that_it_lacks(edges: EdgeList) -> None:
    graph = edges.graph()
    loops = graph.indices[graph.self_loop]
    assert loops.tolist() == list(range(edges.num_nodes))
    given_loops = {
        ends[0]: weight
        for ends, weight in zip(edges.edges, edges.weights, strict=True)
        if ends[0] == ends[1]
    }
    expected = [given_loops.get(node, 1.0) for node in range(edges.num_nodes)]
    assert graph.weight[graph.self_loop].tolist() == expected
    assert torch.equal(graph.indices[~graph.self_loop], no_loops(edges).indices)


def no_loops(edges: EdgeList) -> Graph:
    proper = edges.edge_index[:, edges.edge_index[0] != edges.edge_index[1]]
    return Graph.from_edge_index(proper, edges.num_nodes, normalization="none")


@pytest.mark.parametrize("hub", [0, 299])
def test_chunks_have_nearly_equal_work_even_beside_a_hub(hub: int) -> None:
    generator = torch.Generator().manual_seed(hub)
    edges = torch.randint(300, (2, 4000), generator=generator)
    edges[1, :1000] = hub
    graph = Graph.from_edge_index(edges, 300)
    for chunks, degree in ((graph.chunks, graph.degree), (graph.t_chunks, graph.out_degree)):
        assert chunks.dtype == torch.int64
        assert chunks.shape == (65,)
        assert (int(chunks[0]), int(chunks[-1])) == (0, 300)
        work = [int((degree[start:end] + 1).sum()) for start, end in itertools.pairwise(chunks)]
        assert min(chunks.diff()) >= 0
        assert max(work) <= (graph.num_edges + 300) / 64 + int(degree.max()) + 2


def test_indices_are_int32_where_they_fit_and_int64_where_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    indices = ("indptr", "indices", "t_indptr", "t_indices", "t_edge", "edge_dst", "reverse")
    small = TWO_WAY.graph()
    assert {getattr(small, name).dtype for name in indices} == {torch.int32}
    monkeypatch.setattr(graph_module, "INT32_MAX", 8)
    large = TWO_WAY.graph()
    assert {getattr(large, name).dtype for name in indices} == {torch.int64}
    for name in indices:
        assert getattr(large, name).tolist() == getattr(small, name).tolist()
    assert {large.rows(torch.tensor([1])).indices.dtype, small.value.dtype} == {
        torch.int64,
        torch.float32,
    }
    monkeypatch.setattr(graph_module, "INT32_MAX", 9)  # 5 edges and room for 4 loops
    assert TWO_WAY.graph().indices.dtype == torch.int32


def test_inputs_are_neither_changed_nor_shared() -> None:
    edge_index, edge_weight = torch.tensor([[0, 1], [1, 2]]), torch.tensor([2.0, 3.0])
    graph = Graph.from_edge_index(edge_index, 3, edge_weight, normalization="none")
    edge_index.fill_(0)
    edge_weight.fill_(0.0)
    assert graph.indices.tolist() == [0, 1]
    assert graph.value.tolist() == [2.0, 3.0]
