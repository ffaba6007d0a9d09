"""The sparse closed form is the dense one: likelihood, gradients, answers of nodes left out."""

import pytest
import torch
from torch import Tensor

from graphdrop.graph import Graph
from graphdrop.sampling.edges.closed_form import ClosedForm, Strengths, project
from graphdrop.sampling.edges.features import directions

NODES, CLASSES = 24, 3


def example(
    directed: bool, weighted: bool, overlap: bool
) -> tuple[Graph, Tensor, Tensor, Tensor, Tensor]:
    """A small graph with parallel edges, stored loops, isolated nodes; features, labels, nodes."""
    generator = torch.Generator().manual_seed(3)
    ends = torch.randint(NODES - 2, (2, 50), generator=generator)  # the last two are isolated
    ends = torch.cat([ends, ends[:, :3]], 1)
    if not directed:
        ends = torch.cat([ends, ends.flip(0)], 1)
    weight = None
    if weighted:
        weight = 0.5 + torch.rand(ends.shape[1], generator=generator)
    graph = Graph.from_edge_index(ends, NODES, weight)
    x = torch.randn(NODES, 5, generator=generator)
    x[4] = 0.0
    y = torch.randint(CLASSES, (NODES,), generator=generator)
    conditioned = torch.tensor([0, 3, 4, 5, 8, 9, 11, 22])
    scored = torch.tensor([3, 8, 4, 11]) if overlap else torch.tensor([1, 2, 10, 23, 15])
    return graph, x, y, conditioned, scored


def strengths_of(numbers: Tensor) -> Strengths:
    return Strengths(numbers[0], numbers[1], numbers[2:])


def dense_log_likelihood(
    graph: Graph,
    x: Tensor,
    y: Tensor,
    conditioned: Tensor,
    scored: Tensor,
    keep: Tensor,
    strengths: Strengths,
) -> Tensor:
    """Dense matrices, and a regression solved anew for every node that is left out."""
    row, column = graph.edge_dst.long(), graph.indices.long()
    value = torch.where(row == column, graph.weight, graph.weight * keep).double()
    matrix = torch.zeros(NODES, NODES).double().index_put((row, column), value, accumulate=True)
    root = matrix.sum(1).rsqrt()
    matrix = root[:, None] * matrix * root
    lengths = x.norm(dim=1, keepdim=True)
    x = (x / torch.where(lengths > 0, lengths, 1.0)).double()
    q = torch.softmax(strengths.hops, 0)
    rows = q[0] * x + q[1] * matrix @ x + q[2] * matrix @ matrix @ x
    rows = rows / rows.norm(dim=1, keepdim=True)
    counts = torch.bincount(y[conditioned], minlength=CLASSES) + 1.0
    prior = (counts / counts.sum()).double()
    found = []
    for node in scored.tolist():
        others = conditioned[conditioned != node]
        kernel = rows[others] @ rows[others].T
        kernel = kernel + strengths.ridge.exp() * torch.eye(len(others)).double()
        targets = torch.eye(CLASSES).double()[y[others]] - prior
        answer = rows[node] @ rows[others].T @ torch.linalg.solve(kernel, targets)
        logits = strengths.scale.exp() * answer + prior.log()
        found.append(torch.log_softmax(logits, 0)[y[node]])
    return torch.stack(found)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(("directed", "weighted"), [(False, False), (True, True)])
def test_sparse_likelihood_and_gradient_are_the_dense_ones(
    directed: bool, weighted: bool, overlap: bool
) -> None:
    graph, x, y, conditioned, scored = example(directed, weighted, overlap)
    generator = torch.Generator().manual_seed(1)
    keep = torch.rand(graph.num_edges, generator=generator).requires_grad_()
    numbers = torch.tensor([-1.0, 1.2, -0.3, 0.5, 0.1], requires_grad=True)
    model = ClosedForm(graph, x, y, conditioned=conditioned, scored=scored, num_classes=CLASSES)
    sparse = model.log_likelihood(keep, strengths_of(numbers))
    dense = dense_log_likelihood(
        graph, x, y, conditioned, scored, keep, strengths_of(numbers.double())
    )
    torch.testing.assert_close(sparse, dense, rtol=1e-4, atol=1e-5)
    weight = torch.arange(1.0, len(scored) + 1).double()
    one = torch.autograd.grad(weight @ sparse, (keep, numbers))
    other = torch.autograd.grad(weight @ dense, (keep, numbers))
    assert float(other[0].abs().max()) > 0.01
    for mine, expected in zip(one, other, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-3, atol=1e-5)


def test_predictions_of_scored_nodes_are_what_was_scored() -> None:
    for overlap in (False, True):
        graph, x, y, conditioned, scored = example(False, False, overlap)
        keep, numbers = torch.full((graph.num_edges,), 0.7), torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0])
        model = ClosedForm(graph, x, y, conditioned=conditioned, scored=scored, num_classes=CLASSES)
        logs = model.log_likelihood(keep, strengths_of(numbers))
        found = model.predict(keep, strengths_of(numbers))
        torch.testing.assert_close(found[scored, y[scored]].log(), logs.float())
        torch.testing.assert_close(found.sum(1), torch.ones(NODES))


def test_projected_rows_keep_their_inner_products() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 8, generator=generator) @ torch.randn(8, 200, generator=generator)
    unit = directions(x)
    projected = project(unit, 16)
    assert projected.shape == (60, 16)
    exact = torch.from_numpy((unit @ unit.T).toarray()).float()
    torch.testing.assert_close(projected @ projected.T, exact, rtol=1e-3, atol=1e-4)
