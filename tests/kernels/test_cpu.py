"""The fused kernel computes what the float64 reference computes, whatever the graph and mask."""

from typing import Any

import pytest
import torch
from torch import Tensor

from contracts.allocations import allocations
from contracts.edge_lists import for_all
from contracts.mask_cases import Case, cases
from contracts.masked_sums import (
    assert_fused_is_exact,
    assert_within,
    normal,
    passes,
    power_law_edges,
)
from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, Sharing, Table, stream_key
from graphdrop.kernels import aggregate
from graphdrop.kernels.reference import materialize


# a test for each kind, so that processes that share the work compile different kernels
@for_all(cases(Kind.NONE, per_edge=False))
def test_sums_without_a_mask(case: Case) -> None:
    case.check()


@for_all(cases(Kind.HARD, per_edge=False, widths=(1, 7, 16, 33)))
def test_sums_under_a_hard_mask(case: Case) -> None:
    case.check()


@for_all(cases(Kind.HARD, per_edge=True))
def test_sums_under_a_hard_mask_with_a_rate_for_each_edge(case: Case) -> None:
    case.check()


@for_all(cases(Kind.CONCRETE, per_edge=False))
def test_sums_under_a_concrete_mask(case: Case) -> None:
    case.check()


@for_all(cases(Kind.CONCRETE, per_edge=True))
def test_sums_under_a_concrete_mask_with_a_rate_for_each_edge(case: Case) -> None:
    case.check()


@for_all(cases(Kind.MEAN, per_edge=False) | cases(Kind.MEAN, per_edge=True))
def test_sums_under_the_expected_mask(case: Case) -> None:
    case.check()


def power_law_case(
    features: int, blocks: int | None, kind: Kind, per_edge: bool, *, symmetric: bool = False
) -> Case:
    graph = Graph.from_edge_index(power_law_edges(50, 300), 60)
    logit = normal(graph.num_edges) if per_edge else torch.tensor(0.4)
    mask = Mask(
        kind, logit, stream_key(5), blocks=blocks, symmetric=symmetric, self_loops=not symmetric
    )
    return Case(graph, mask, normal(60, features, seed=1), normal(60, features, seed=2))


@pytest.mark.parametrize(
    ("features", "blocks", "kind", "per_edge"),
    [
        (64, 4, Kind.CONCRETE, False),
        (128, 8, Kind.HARD, True),
        (128, None, Kind.CONCRETE, False),
        (144, 3, Kind.CONCRETE, False),
        (256, 1, Kind.NONE, False),
        (288, 18, Kind.HARD, False),
        (300, 7, Kind.CONCRETE, True),
    ],
)
def test_wide_features_in_blocks_that_fit_the_vectors_or_do_not(
    features: int, blocks: int | None, kind: Kind, per_edge: bool
) -> None:
    power_law_case(features, blocks, kind, per_edge).check()


@pytest.mark.slow
@pytest.mark.parametrize("features", [16, 32, 64, 128, 144, 240])
@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 8, None])
@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("per_edge", [False, True])
def test_every_compiled_kernel(
    features: int, blocks: int | None, kind: Kind, per_edge: bool
) -> None:
    power_law_case(features, blocks, kind, per_edge, symmetric=True).check()


@pytest.mark.parametrize("kind", [Kind.HARD, Kind.CONCRETE])
@pytest.mark.parametrize("outward", [False, True])
def test_a_hub_of_a_hundred_thousand_edges(kind: Kind, outward: bool) -> None:
    degree = 100_000
    spokes = torch.arange(1, degree + 1)
    edge_index = torch.stack([torch.zeros_like(spokes), spokes])
    graph = Graph.from_edge_index(edge_index if outward else edge_index.flip(0), degree + 1)
    mask = Mask(kind, torch.tensor(0.5), stream_key(3), blocks=None)
    # numbers of one sign: rounding errors of a naive running sum would add up
    x, gradient = (normal(degree + 1, 7, seed=seed).abs() for seed in (1, 2))
    assert_fused_is_exact(graph, x, mask, gradient)


@pytest.mark.parametrize("kind", Kind)
def test_graphs_without_edges_rows_or_features(kind: Kind) -> None:
    mask = Mask(kind, torch.tensor(0.5), stream_key(1), blocks=None)
    edgeless = Graph.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 3, self_loops=False)
    assert_fused_is_exact(edgeless, normal(3, 7), mask, normal(3, 7))
    rowless = Graph.from_edge_index(power_law_edges(9, 20), 9).rows(torch.tensor([]).long())
    assert_fused_is_exact(rowless, normal(0, 7), mask, normal(0, 7))
    graph = Graph.from_edge_index(power_law_edges(9, 20), 9)
    assert_fused_is_exact(graph, normal(9, 0), mask, normal(9, 0))


@pytest.mark.parametrize("per_edge", [False, True])
def test_the_gradient_of_the_logit_needs_none_of_the_input(per_edge: bool) -> None:
    graph = Graph.from_edge_index(power_law_edges(50, 400, 1), 70)
    logit = torch.full((graph.num_edges,), 0.3) if per_edge else torch.tensor(0.3)
    gradients = []
    for wanted in (True, False):
        x, logits = normal(70, 33).requires_grad_(wanted), logit.clone().requires_grad_()
        mask = Mask(Kind.CONCRETE, logits, stream_key(0, 0, 0, 0))
        aggregate(graph, x, mask).square().sum().backward()
        gradients.append(logits.grad)
        assert (x.grad is not None) == wanted
    assert torch.equal(*gradients)


NODES = 40
GRAPH = Graph.from_edge_index(power_law_edges(NODES, 300), NODES)


def table_of(bits: int = 12) -> Table:
    """Rising multipliers, and slopes of either sign."""
    multiplier = torch.linspace(0.0, 1.0, 1 << bits, dtype=torch.float64) ** 2
    slopes = normal(2, 1 << bits, seed=2).double()
    return Table(multiplier, slopes, torch.tensor([0.5, 2.0], requires_grad=True))


@pytest.mark.parametrize(
    ("features", "blocks", "options"),
    [
        (7, 1, {"antithetic": True}),
        (64, 2, {"sharing": Sharing.SOURCE}),
        (7, 3, {"symmetric": True, "self_loops": False}),
        (7, None, {"before_normalization": True}),
    ],
)
def test_masks_with_a_table_and_the_gradients_of_its_parameters(
    features: int, blocks: int | None, options: dict[str, Any]
) -> None:
    table = table_of(16 if "antithetic" in options else 12)
    mask = Mask(
        Kind.CONCRETE, torch.tensor(0.3), stream_key(3), blocks=blocks, table=table, **options
    )
    x, gradient = normal(NODES, features), normal(NODES, features, seed=1)

    def both(graph: Graph, x: Tensor, gradient: Tensor, backend: str) -> list[Tensor]:
        x = x.detach().requires_grad_()
        value = aggregate(graph, x, mask, backend=backend)
        return [value, *torch.autograd.grad(value, [x, table.parameters], gradient)]

    exact = both(GRAPH.double(), x.double(), gradient.double(), "reference")
    for got, wanted in zip(both(GRAPH, x, gradient, "fused"), exact, strict=True):
        assert_within(got, wanted, wanted.abs().max())


def test_both_backends_read_the_same_entries_of_a_table() -> None:
    mask = Mask(Kind.CONCRETE, torch.tensor(0.3), stream_key(3), blocks=None, table=table_of())
    edges = torch.unique(power_law_edges(NODES, 300), dim=1)
    graph = Graph.from_edge_index(edges, NODES, normalization="none")
    # column u has what u alone sends
    read = aggregate(graph, torch.eye(NODES), mask, backend="fused")
    number = torch.arange(graph.num_edges)
    written = materialize(graph, mask, NODES)[number, graph.indices.long()]
    assert torch.equal(read[graph.edge_dst.long(), graph.indices.long()], written.detach())


@pytest.mark.parametrize(
    ("kind", "per_edge", "sharing"),
    [(Kind.HARD, False, Sharing.EDGE), (Kind.CONCRETE, True, Sharing.EDGE)],
)
def test_a_mask_per_feature_allocates_less_than_a_mebibyte_more_than_none(
    kind: Kind, per_edge: bool, sharing: Sharing
) -> None:
    graph = Graph.from_edge_index(power_law_edges(2708, 10556), 2708)  # as large as Cora
    x, gradient = normal(2708, 128), normal(2708, 128, seed=1)
    logit = normal(graph.num_edges) if per_edge else torch.tensor(0.3)
    masks = [Mask(Kind.NONE, torch.zeros(()), stream_key(1))]
    masks.append(Mask(kind, logit, stream_key(1), blocks=None, sharing=sharing))
    plain, masked = (
        allocations(lambda mask=mask: passes(graph, x, mask, gradient, "fused")) for mask in masks
    )
    smallest_mask = graph.num_edges * 128  # a byte for each
    assert masked.peak - plain.peak < 1 << 20 < smallest_mask


@pytest.mark.parametrize("needs_gradient", [False, True])
def test_the_input_is_kept_for_the_backward_pass_only_where_the_logit_needs_it(
    needs_gradient: bool,
) -> None:
    kept: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor.data_ptr())
        return tensor

    x = normal(NODES, 7).requires_grad_()
    logit = torch.tensor(0.3, requires_grad=needs_gradient)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        aggregate(GRAPH, x, Mask(Kind.CONCRETE, logit, stream_key(1)))
    assert (x.data_ptr() in kept) == needs_gradient


def test_a_gradient_of_a_gradient_is_refused_rather_than_wrong() -> None:
    x = normal(NODES, 7).requires_grad_()
    out = aggregate(GRAPH, x, backend="fused")
    (gradient,) = torch.autograd.grad((out**2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()  # type: ignore[no-untyped-call]
