"""Edges that are no edges are refused with the argument, what it got and what it takes."""

import pytest
import torch
from torch import Tensor

from graphdrop.graph import Graph
from graphdrop.graph.validate import MAX_NODES

EDGES = torch.tensor([[0, 1], [1, 2]])


@pytest.mark.parametrize(
    ("edge_index", "error", "message"),
    [
        (
            [[0], [1]],
            TypeError,
            r"edge_index is of type list; it takes a dense tensor of shape \[2, E\]",
        ),
        (
            torch.eye(2).to_sparse(),
            TypeError,
            "edge_index is of type torch.float32 in torch.sparse_coo",
        ),
        (EDGES.float(), TypeError, "edge_index has dtype torch.float32; it takes integers"),
        (EDGES.bool(), TypeError, "edge_index has dtype torch.bool; it takes integers"),
        (EDGES.to(torch.complex64), TypeError, "dtype torch.complex64; it takes integers"),
        (
            torch.zeros(3, 2, dtype=torch.int64),
            ValueError,
            r"shape \(3, 2\); it takes shape \[2, E\]",
        ),
        (torch.zeros(2, dtype=torch.int64), ValueError, r"shape \(2,\); it takes shape \[2, E\]"),
        (EDGES - 1, ValueError, "edge_index contains -1; it takes node numbers, counted from 0"),
        (EDGES + MAX_NODES, ValueError, f"num_nodes is {MAX_NODES + 3}; it takes at most"),
    ],
)
def test_edges_of_the_wrong_kind_are_refused(
    edge_index: Tensor, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Graph.from_edge_index(edge_index)


def test_a_node_beyond_num_nodes_is_named() -> None:
    with pytest.raises(
        ValueError, match="num_nodes is 2, but edge_index names node 2: pass num_no"
    ):
        Graph.from_edge_index(EDGES, 2)
    assert Graph.from_edge_index(EDGES, 3).num_dst == Graph.from_edge_index(EDGES).num_dst == 3


@pytest.mark.parametrize("num_nodes", [-1, 2**32])
def test_a_count_of_nodes_that_cannot_be_is_refused(num_nodes: int) -> None:
    with pytest.raises(ValueError, match=f"num_nodes .*{num_nodes}"):
        Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), num_nodes)
    with pytest.raises(TypeError):
        Graph.from_edge_index(EDGES, 3.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("edge_weight", "error", "message"),
    [
        ([1.0, 1.0], TypeError, "edge_weight is of type list; it takes a tensor of real numbers"),
        (torch.ones(2) * 1j, TypeError, "edge_weight is of type torch.complex64; it takes"),
        (torch.ones(3), ValueError, r"edge_weight has shape \(3,\); it takes shape \[2\]"),
        (torch.ones(2, 1), ValueError, r"edge_weight has shape \(2, 1\); it takes shape \[2\]"),
        (
            torch.tensor([1.0, torch.nan]),
            ValueError,
            "edge_weight is nan for edge 1; it takes",
        ),
        (
            torch.tensor([torch.inf, 1.0]),
            ValueError,
            "edge_weight is inf for edge 0; it takes",
        ),
        (torch.tensor([1e300, 1.0]).double() * 1e300, ValueError, "edge_weight is inf for edge 0"),
        (torch.ones(2, requires_grad=True), ValueError, "edge_weight requires a gradient"),
    ],
)
def test_weights_that_are_no_weights_are_refused(
    edge_weight: Tensor, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Graph.from_edge_index(EDGES, edge_weight=edge_weight)
