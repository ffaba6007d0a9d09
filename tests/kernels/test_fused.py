"""The fused kernel computes what the float64 reference computes, whatever the graph and mask."""

import pytest
import torch

from contracts.edge_lists import for_all
from contracts.mask_cases import Case, cases
from contracts.masked_sums import (
    assert_fused_is_exact,
    assert_within,
    exact,
    magnitudes,
    normal,
    passes,
    power_law_edges,
)
from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, stream_key
from graphdrop.kernels import aggregate


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


def test_any_number_of_features_from_1_to_300() -> None:
    case = power_law_case(300, None, Kind.HARD, per_edge=False)
    # a feature's draw is its own, however many there are
    wanted, scale = (f(case.graph, case.x, case.mask, case.gradient) for f in (exact, magnitudes))
    for features in range(1, 301):
        columns = slice(0, features)
        x, gradient = case.x[:, columns], case.gradient[:, columns]
        fused = passes(case.graph, x, case.mask, gradient, "fused")
        assert_within(fused.value, wanted.value[:, columns], scale.value[:, columns])
        assert_within(fused.x_gradient, wanted.x_gradient[:, columns], scale.x_gradient[:, columns])


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
