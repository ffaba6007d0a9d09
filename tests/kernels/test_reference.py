"""The reference backend: right derivatives, in runs that bound what exists at once."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from contracts.allocations import allocations
from contracts.masked_sums import normal, power_law_edges
from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, Sharing, stream_key
from graphdrop.kernels import aggregate, reference

GRAPH = Graph.from_edge_index(power_law_edges(6, 14), 7).double()
TINY = 512
"""Bytes of messages: a run is a few edges."""


def relaxed(logit: Tensor, **options: object) -> Mask:
    return replace(Mask(Kind.CONCRETE, logit, stream_key(4), blocks=2), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("message_bytes", [TINY, reference.MESSAGE_BYTES])
@pytest.mark.parametrize("per_edge", [False, True])
def test_gradients_are_the_finite_differences(per_edge: bool, message_bytes: int) -> None:
    x = normal(7, 3).double().requires_grad_()
    logit = normal(GRAPH.num_edges, seed=1).double() if per_edge else torch.tensor(0.3).double()

    def run(x: Tensor, logit: Tensor) -> Tensor:
        return reference.aggregate(GRAPH, x, relaxed(logit), message_bytes)

    assert torch.autograd.gradcheck(run, (x, logit.requires_grad_()))


@pytest.mark.parametrize(
    ("normalization", "per_edge"), [("row", True), ("sym", False), ("sym", True), ("paper", False)]
)
def test_gradients_through_the_degrees_are_the_finite_differences(
    normalization: str, per_edge: bool
) -> None:
    graph = GRAPH.normalized(normalization)
    x = normal(7, 3).double().requires_grad_()
    logit = normal(graph.num_edges, seed=1).double() if per_edge else torch.tensor(0.3).double()

    def run(x: Tensor, logit: Tensor) -> Tensor:
        return aggregate(graph, x, relaxed(logit, before_normalization=True))

    assert torch.autograd.gradcheck(run, (x, logit.requires_grad_()))


@pytest.mark.parametrize(
    "options", [{}, {"sharing": Sharing.SOURCE}, {"symmetric": True}, {"self_loops": False}]
)
def test_runs_of_a_few_edges_add_up_to_the_whole(
    options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    multipliers = reference.edge_multipliers

    def counted(
        graph: Graph, mask: Mask, features: int, edges: Tensor, dtype: torch.dtype
    ) -> Tensor:
        runs.append(len(edges))
        return multipliers(graph, mask, features, edges, dtype)

    monkeypatch.setattr(reference, "edge_multipliers", counted)
    x, logit = normal(7, 3).double().requires_grad_(), torch.tensor(0.3, requires_grad=True)
    whole = reference.aggregate(GRAPH, x, relaxed(logit, **options))
    assert runs == [GRAPH.num_edges]
    runs.clear()
    pieces = reference.aggregate(GRAPH, x, relaxed(logit, **options), TINY)
    assert sum(runs) == GRAPH.num_edges
    assert len(runs) > 3
    torch.testing.assert_close(pieces, whole)
    gradient = normal(7, 3, seed=2).double()
    for got, wanted in zip(
        torch.autograd.grad(pieces, [x, logit], gradient),
        torch.autograd.grad(whole, [x, logit], gradient),
        strict=True,
    ):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("kind", [Kind.HARD, Kind.CONCRETE])
@pytest.mark.parametrize("per_edge", [False, True])
def test_no_more_messages_exist_at_once_than_allowed(kind: Kind, per_edge: bool) -> None:
    graph = Graph.from_edge_index(power_law_edges(200, 50_000), 200).double()
    x = normal(200, 32).double().requires_grad_()
    logit = (torch.zeros(graph.num_edges) if per_edge else torch.tensor(0.0)).requires_grad_()
    mask = Mask(kind, logit, stream_key(1), blocks=None, self_loops=False)
    inputs = [x, logit] if kind is Kind.CONCRETE else [x]

    def step(message_bytes: int) -> None:
        out = reference.aggregate(graph, x, mask, message_bytes)
        torch.autograd.grad(out.sum(), inputs)

    budget = 4 << 20
    # numbers of edges, and what is as large as x, are no messages
    allowed = budget + 3 * 8 * graph.num_edges + 16 * 8 * x.numel()
    all_messages = 8 * graph.num_edges * x.shape[1]
    assert allowed < all_messages / 1.5
    assert allocations(lambda: step(budget)).peak < allowed
    assert allocations(lambda: step(1 << 40)).peak > 3 * all_messages
