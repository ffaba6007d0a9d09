"""Triton's masked sums and gradients are those of the float64 reference, interpreted on the CPU."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

pytest.importorskip("triton")

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
from graphdrop.graph import CSR, Graph
from graphdrop.graph.masks import Kind, Mask, Sharing, Table, stream_key
from graphdrop.kernels import aggregate, gpu
from graphdrop.kernels.gpu import segments
from graphdrop.kernels.gpu.unmasked import unmasked_sum
from graphdrop.kernels.reference import materialize

EXAMPLES = 5
NODES = 12
GRAPH = Graph.from_edge_index(power_law_edges(NODES, 40), NODES)


@pytest.fixture(autouse=True, scope="module")
def short_segments() -> Iterator[None]:
    """Rows of more than 8 edges are split: hubs of small graphs are, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "SPAN", 8)
        yield


def few(kind: Kind, per_edge: bool) -> Any:
    strategy = cases(kind, per_edge, edges=40, widths=(1, 7, 33))

    def wrap(test: Any) -> Any:
        return settings(max_examples=EXAMPLES, deadline=None)(given(strategy)(test))

    return wrap


@few(Kind.HARD, per_edge=False)
def test_sums_under_a_hard_mask(case: Case) -> None:
    case.check("triton")


@few(Kind.HARD, per_edge=True)
def test_sums_under_a_hard_mask_with_a_rate_for_each_edge(case: Case) -> None:
    case.check("triton")


@few(Kind.CONCRETE, per_edge=False)
def test_sums_under_a_concrete_mask(case: Case) -> None:
    case.check("triton")


@few(Kind.CONCRETE, per_edge=True)
def test_sums_under_a_concrete_mask_with_a_rate_for_each_edge(case: Case) -> None:
    case.check("triton")


@few(Kind.MEAN, per_edge=True)
def test_sums_under_the_expected_mask(case: Case) -> None:
    case.check("triton")


@few(Kind.NONE, per_edge=False)
def test_sums_without_a_mask_are_those_of_a_sparse_matrix(case: Case) -> None:
    case.check("triton")


@pytest.mark.parametrize(
    ("kind", "sharing"),
    [
        *((Kind.HARD, each) for each in ("edge", "block", "feature", "source", "symmetric")),
        *((Kind.CONCRETE, each) for each in ("block", "source", "symmetric")),
        *((Kind.MEAN, each) for each in ("edge", "feature")),
    ],
)
def test_the_masks_of_every_kind_and_sharing_are_those_of_the_reference(
    kind: Kind, sharing: str
) -> None:
    """One edge into each row and weights of 1: sums of ones are the masks themselves."""
    ring = torch.stack([torch.arange(NODES), (torch.arange(NODES) + 5) % NODES])
    graph = Graph.from_edge_index(ring, normalization="none")
    blocks = {"block": 3, "feature": None, "source": None}.get(sharing, 1)
    options: dict[str, Any] = {"symmetric": sharing == "symmetric", "blocks": blocks}
    if sharing == "source":
        options["sharing"] = Sharing.SOURCE
    mask = Mask(kind, torch.tensor(0.3), stream_key(9), self_loops=False, **options)
    got = aggregate(graph, torch.ones(NODES, 20), mask, backend="triton")
    wanted = materialize(graph, mask, 20)
    if kind is Kind.HARD:
        assert torch.equal(got, wanted)
        assert 0.0 < float(got.mean()) < 1.0
    else:
        torch.testing.assert_close(got, wanted, rtol=1e-6, atol=2e-7)


@pytest.mark.parametrize("outward", [False, True])
def test_a_hub_is_summed_in_segments_in_both_directions(outward: bool) -> None:
    spokes = torch.arange(1, 41)
    star = torch.stack([spokes, torch.zeros_like(spokes)])
    graph = Graph.from_edge_index(star.flip(0) if outward else star, 41)
    logit = normal(graph.num_edges) if outward else torch.tensor(0.3)
    mask = Mask(Kind.CONCRETE, logit, stream_key(3), blocks=None)
    assert_fused_is_exact(graph, normal(41, 5), mask, normal(41, 5, seed=1), "triton")


@pytest.mark.parametrize(("features", "blocks"), [(130, None), (257, 3)])
def test_features_of_several_tiles(features: int, blocks: int | None) -> None:
    mask = Mask(Kind.CONCRETE, normal(GRAPH.num_edges), stream_key(3), blocks=blocks)
    x, gradient = normal(NODES, features), normal(NODES, features, seed=1)
    assert_fused_is_exact(GRAPH, x, mask, gradient, "triton")


@pytest.mark.parametrize("kind", [Kind.HARD, Kind.CONCRETE])
def test_graphs_without_edges_rows_or_features_and_of_one_edge(kind: Kind) -> None:
    mask = Mask(kind, torch.tensor(0.5), stream_key(1), blocks=None)
    empty = torch.empty(2, 0, dtype=torch.int64)
    edgeless = Graph.from_edge_index(empty, 3, self_loops=False)
    for graph, features in (
        (edgeless, 7),
        (GRAPH.rows(torch.tensor([]).long()), 7),
        (GRAPH, 0),
        (Graph.from_edge_index(torch.tensor([[0], [1]]), 3, self_loops=False), 3),
    ):
        x, gradient = normal(graph.num_src, features), normal(graph.num_dst, features, seed=1)
        assert_fused_is_exact(graph, x, mask, gradient, "triton")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_in_float32(dtype: torch.dtype) -> None:
    mask = Mask(Kind.CONCRETE, torch.tensor(0.4), stream_key(2), blocks=2)
    x, gradient = (normal(NODES, 9, seed=seed).to(dtype) for seed in (1, 2))
    got = passes(GRAPH, x, mask, gradient, "triton")
    wanted, scale = (f(GRAPH, x, mask, gradient) for f in (exact, magnitudes))
    assert got.value.dtype == got.x_gradient.dtype == dtype
    # rounded once, at the end
    last = torch.finfo(dtype).eps
    assert_within(got.value, wanted.value, scale.value, last)
    assert_within(got.x_gradient, wanted.x_gradient, scale.x_gradient, last)
    assert got.logit_gradient is not None
    assert wanted.logit_gradient is not None
    assert scale.logit_gradient is not None
    assert_within(got.logit_gradient, wanted.logit_gradient, scale.logit_gradient)


@pytest.mark.parametrize("normalization", ["row", "paper"])
def test_masks_before_normalization(normalization: str) -> None:
    graph = GRAPH.normalized(normalization)
    mask = Mask(
        Kind.CONCRETE, torch.tensor(0.4), stream_key(2), blocks=2, before_normalization=True
    )
    x, gradient = normal(NODES, 6), normal(NODES, 6, seed=1)
    got, wanted = passes(graph, x, mask, gradient, "triton"), exact(graph, x, mask, gradient)
    for name in ("value", "x_gradient", "logit_gradient"):
        one, other = getattr(got, name).double(), getattr(wanted, name)
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bits", [12, 16])
def test_masks_with_a_table(bits: int) -> None:
    multiplier = torch.linspace(0.0, 1.0, 1 << bits, dtype=torch.float64) ** 2
    slopes = normal(2, 1 << bits).double()
    parameters = torch.tensor([0.5, 2.0], requires_grad=True)
    mask = Mask(
        Kind.CONCRETE,
        torch.tensor(0.3),
        stream_key(3),
        blocks=2,
        antithetic=True,
        self_loops=False,
        table=Table(multiplier, slopes, parameters),
    )
    x, gradient = normal(NODES, 9).requires_grad_(), normal(NODES, 9, seed=1)

    def both(graph: Graph, x: Tensor, gradient: Tensor, backend: str) -> list[Tensor]:
        out = aggregate(graph, x, mask, backend=backend)
        return [out, *torch.autograd.grad(out, [x, parameters], gradient)]

    got = both(GRAPH, x, gradient, "triton")
    wanted = both(GRAPH.double(), x.double(), gradient.double(), "reference")
    for one, other in zip(got, wanted, strict=True):
        assert_within(one, other, other.abs().max())


@pytest.mark.parametrize("shared", [True, False])
def test_samples_of_one_launch_have_the_bits_of_each_alone(shared: bool) -> None:
    masks = [
        Mask(Kind.CONCRETE, torch.tensor(0.2 * sample), stream_key(1, sample=sample), blocks=2)
        for sample in range(3)
    ]
    x = normal(NODES, 1 if shared else 3, 9).requires_grad_()
    logits = [mask.keep_logit.requires_grad_() for mask in masks]
    together = gpu.aggregate_samples(GRAPH, x, masks)
    alone = [
        aggregate(GRAPH, x[:, 0 if shared else sample], mask, backend="triton")
        for sample, mask in enumerate(masks)
    ]
    assert torch.equal(together, torch.stack(alone, 1))
    gradient = normal(NODES, 3, 9, seed=1)
    got = torch.autograd.grad(together, [x, *logits], gradient)
    wanted = torch.autograd.grad(torch.stack(alone, 1), [x, *logits], gradient)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_equal_calls_give_equal_bits() -> None:
    mask = Mask(Kind.CONCRETE, torch.tensor(0.4), stream_key(2), blocks=None)
    x, gradient = normal(NODES, 9), normal(NODES, 9, seed=1)
    first, second = (passes(GRAPH, x, mask, gradient, "triton") for _ in range(2))
    assert torch.equal(first.value, second.value)
    assert torch.equal(first.x_gradient, second.x_gradient)
    assert first.logit_gradient is not None
    assert second.logit_gradient is not None
    assert torch.equal(first.logit_gradient, second.logit_gradient)


def test_sums_without_a_mask_take_any_matrix_and_pass_a_gradient_on() -> None:
    x = normal(NODES, 4).requires_grad_()
    out = unmasked_sum(GRAPH, x)
    wanted = aggregate(GRAPH, x, backend="reference")
    torch.testing.assert_close(out, wanted)
    (got,) = torch.autograd.grad(out.square().sum(), x)
    (slope,) = torch.autograd.grad(wanted.square().sum(), x)
    torch.testing.assert_close(got, slope)


def test_sums_without_a_mask_over_no_entries_are_zero() -> None:
    none = torch.zeros(0, dtype=torch.int32)
    empty = CSR.from_rows(torch.zeros(4, dtype=torch.int32), none, torch.zeros(0), 2)
    x = normal(2, 5).requires_grad_()
    out = unmasked_sum(empty, x)
    assert torch.equal(out, torch.zeros(3, 5))
    (got,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(got, torch.zeros(2, 5))
