"""The normalized weights are the matrices of the formulas, and `sym` is that of PyG."""

import pytest
import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from contracts.edge_lists import EdgeList, dense, edge_lists, for_all
from graphdrop.graph import Graph, Normalization

PATH = EdgeList(3, [(0, 1), (1, 0), (1, 2), (2, 1)], [1.0, 1.0, 1.0, 1.0])


def power(diagonal: Tensor, exponent: float) -> Tensor:
    """A diagonal matrix to a negative power, with 0 where the diagonal is 0."""
    return torch.diag(
        torch.tensor([float(d) ** exponent if d > 0 else 0.0 for d in diagonal]).double()
    )


def with_loops(adjacency: Tensor) -> Tensor:
    """A + I, where a loop that is there takes the place of the entry in I."""
    missing = (adjacency.diagonal() == 0).double()
    return adjacency + torch.diag(missing)


def test_a_path_of_three_nodes_by_hand() -> None:
    third, sixth = 1 / 3, 6**-0.5
    expected = {
        "row": [[0.5, 0.5, 0.0], [third, third, third], [0.0, 0.5, 0.5]],
        "sym": [[0.5, sixth, 0.0], [sixth, third, sixth], [0.0, sixth, 0.5]],
        "paper": [[1.0, 0.5**0.5, 0.0], [0.5**0.5, 1.0, 0.5**0.5], [0.0, 0.5**0.5, 1.0]],
        "none": [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]],
    }
    for kind, matrix in expected.items():
        torch.testing.assert_close(
            dense(PATH.graph(kind)), torch.tensor(matrix).double(), rtol=1e-6, atol=0
        )


@for_all(edge_lists())
def test_paper_adds_the_identity_after_normalizing(edges: EdgeList) -> None:
    adjacency = edges.dense()
    identity = torch.diag(with_loops(adjacency).diagonal())
    adjacency.fill_diagonal_(0.0)
    scale = power(adjacency.sum(1), -0.5)
    torch.testing.assert_close(
        dense(edges.graph("paper")), identity + scale @ adjacency @ scale, rtol=1e-6, atol=0
    )


@for_all(edge_lists(parallel=False))
def test_sym_is_the_gcn_norm_of_pyg_on_directed_weighted_graphs(edges: EdgeList) -> None:
    index, weight = gcn_norm(edges.edge_index, edges.edge_weight, edges.num_nodes)
    assert_same_matrix(edges.graph(), index, weight)


def assert_same_matrix(graph: Graph, index: Tensor, weight: Tensor) -> None:
    expected = torch.zeros(graph.num_dst, graph.num_src, dtype=torch.float64)
    expected.index_put_((index[1], index[0]), weight.double(), accumulate=True)
    torch.testing.assert_close(dense(graph), expected, rtol=1e-5, atol=1e-7)


@for_all(edge_lists())
def test_another_normalization_keeps_the_edges_and_what_was_derived_from_them(
    edges: EdgeList,
) -> None:
    graph = edges.graph("sym")
    reverse = graph.reverse
    for kind in ("row", "paper"):
        other = graph.normalized(kind)
        built = edges.graph(kind)
        assert other.normalization is Normalization(kind)
        assert torch.equal(other.value, built.value)
        assert torch.equal(other.t_value, built.t_value)
        assert other.indices is graph.indices
        assert other.reverse is reverse
    assert graph.normalized("sym") is graph
    assert torch.equal(graph.normalized("none").value, graph.weight)


@pytest.mark.parametrize("kind", ["row", "sym", "paper"])
def test_a_node_without_edges_has_an_empty_row_and_nothing_is_divided_by_zero(kind: str) -> None:
    graph = EdgeList(3, [(0, 1)], [2.0]).graph(kind, self_loops=False)
    assert graph.degree.tolist() == [0, 1, 0]
    assert bool(graph.value.isfinite().all())
    # The source's own incoming weight is 0, and 0^-1/2 is 0.
    assert graph.value.tolist() == [1.0 if kind == "row" else 0.0]


@pytest.mark.parametrize("kind", ["sym", "paper"])
def test_a_negative_sum_has_no_square_root(kind: str) -> None:
    edges = EdgeList(3, [(0, 1), (2, 1)], [1.0, -4.0])
    with pytest.raises(ValueError, match=rf"edge_weight sums to -\d at node 1, and '{kind}'"):
        edges.graph(kind)
    torch.testing.assert_close(edges.graph("row").value, torch.tensor([1.0, -0.5, -0.5, 2.0, 1.0]))


def test_sums_are_taken_in_more_precision_than_the_weights_have() -> None:
    many = torch.stack([torch.arange(1, 100_001), torch.zeros(100_000, dtype=torch.int64)])
    graph = Graph.from_edge_index(many, edge_weight=torch.full((100_000,), 0.1))
    total = 100_000 * float(torch.tensor(0.1)) + 1.0
    hub = float(graph.value[0])  # the hub's own loop
    assert hub == pytest.approx(1.0 / total, rel=1e-7)
    assert int(graph.degree[0]) == 100_001
