"""Stored edges become an undirected graph in one way, and what changed is counted."""

import math

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphdrop.data.edges import EdgeChanges, edge_homophily, isolated_nodes, undirected_edges

entries = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30)


def edge_index(pairs: list[tuple[int, int]]) -> torch.Tensor:
    return torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T


def test_each_change_is_made_once_and_counted():
    stored = edge_index([(0, 1), (1, 0), (0, 1), (2, 1), (3, 3), (3, 3)])
    edges, changes = undirected_edges(stored, 4)
    assert edges.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert changes == EdgeChanges(stored=6, duplicates=2, self_loops=1, one_way=1)


@given(entries)
def test_the_result_is_the_simple_undirected_graph_of_the_entries(pairs):
    edges, changes = undirected_edges(edge_index(pairs), 7)
    simple = nx.Graph((u, v) for u, v in pairs if u != v)
    assert edges.T.tolist() == sorted(map(list, simple.to_directed().edges))
    assert changes.self_loops == len({u for u, v in pairs if u == v})
    assert changes.duplicates == len(pairs) - len(set(pairs))
    kept = changes.stored - changes.duplicates - changes.self_loops
    assert edges.shape[1] == kept + changes.one_way


@given(entries)
def test_doing_it_again_changes_nothing(pairs):
    once, _ = undirected_edges(edge_index(pairs), 7)
    again, changes = undirected_edges(once, 7)
    assert torch.equal(once, again)
    assert changes == EdgeChanges(once.shape[1], 0, 0, 0)


def test_a_node_with_only_a_self_loop_is_isolated():
    assert isolated_nodes(edge_index([(0, 1), (2, 2)]), 4).tolist() == [False, False, True, True]


def test_homophily_counts_edges_between_labelled_nodes_without_self_loops():
    edges = edge_index([(0, 1), (1, 2), (2, 3), (0, 2), (4, 4)])
    labels = torch.tensor([0, 0, 1, -1, 1])
    assert edge_homophily(edges, labels) == pytest.approx(1 / 3)


def test_homophily_of_no_edges_is_not_a_number():
    assert math.isnan(edge_homophily(edge_index([(0, 1)]), torch.tensor([0, -1])))


@pytest.mark.parametrize(
    ("name", "edges", "changes"),
    [
        ("cora", 5278, EdgeChanges(10858, duplicates=302, self_loops=0, one_way=0)),
        ("citeseer", 4552, EdgeChanges(9464, duplicates=236, self_loops=124, one_way=0)),
        ("pubmed", 44324, EdgeChanges(88676, duplicates=25, self_loops=3, one_way=0)),
        ("cora_ml", 8158, EdgeChanges(8416, duplicates=0, self_loops=0, one_way=7900)),
    ],
)
def test_the_edges_of_the_benchmarks_are_counted_exactly(load_benchmark, name, edges, changes):
    dataset = load_benchmark(name)
    assert dataset.summary.edges == edges
    assert dataset.changes == changes
    assert dataset.data.edge_index.shape == (2, 2 * edges)
    assert not dataset.data.has_self_loops()
    assert dataset.data.is_undirected()
    assert dataset.data.is_coalesced()
