"""Triton's sums, gradients and draws are those of plain torch, interpreted on the CPU."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import triton.language as tl
from hypothesis import given, settings
from torch import Tensor

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
from graphdrop.graph import masks as draws
from graphdrop.graph.masks import Kind, Mask, Sharing, Table, stream_key
from graphdrop.kernels import aggregate, gpu
from graphdrop.kernels.gpu import structure
from graphdrop.kernels.gpu.rows import block_numbers, draw_values, edge_bits, relaxed
from graphdrop.kernels.reference import draw_values as drawn

triton = pytest.importorskip("triton")


PART = Graph.from_edge_index(power_law_edges(20, 60), 20).rows(torch.arange(3, 20))


EDGES, NUMBERS = triton.next_power_of_2(PART.num_edges), 128


FEATURE_MASK = Mask(Kind.HARD, torch.tensor(0.3), stream_key(5, 2, 1), blocks=None)


@triton.jit
def _draw(
    out: Any,
    destinations: Any,
    sources: Any,
    ranks: Any,
    keys: Any,
    SOURCE: tl.constexpr,
    SYMMETRIC: tl.constexpr,
    ANTITHETIC: tl.constexpr,
    E: tl.constexpr,
    D: tl.constexpr,
) -> None:
    edge = tl.arange(0, E)
    number = tl.arange(0, D)
    first = tl.load(keys).to(tl.uint64, bitcast=True)
    second = tl.load(keys + 1).to(tl.uint64, bitcast=True)
    ends = tl.load(destinations + edge), tl.load(sources + edge)
    rank = tl.load(ranks + edge)
    bits = edge_bits(ends[0], ends[1], rank, first, second, SOURCE, SYMMETRIC, True)
    tl.store(out + edge[:, None] * D + number[None, :], draw_values(bits, number, ANTITHETIC))


@triton.jit
def _relax(
    kept: Any, slopes: Any, values: Any, logits: Any, widest: Any, inverse: Any, E: tl.constexpr
) -> None:
    edge = tl.arange(0, E)
    z, slope = relaxed(tl.load(values + edge), tl.load(logits + edge), widest, inverse)
    tl.store(kept + edge, z)
    tl.store(slopes + edge, slope)


@triton.jit
def _blocks(out: Any, features: Any, blocks: Any, F: tl.constexpr) -> None:
    feature = tl.arange(0, F)
    tl.store(out + feature, block_numbers(feature, features, blocks))


def padded(tensor: Tensor) -> Tensor:
    return torch.nn.functional.pad(tensor.long(), (0, EDGES - len(tensor)))


@pytest.mark.parametrize(
    ("which", "antithetic"),
    [("edge", False), ("edge", True), ("symmetric", True), ("source", False)],
)
def test_draws_are_equal_bit_for_bit(which: str, antithetic: bool) -> None:
    assert PART.rank is not None  # parallel edges are among them
    options = {
        "edge": {},
        "symmetric": {"symmetric": True},
        "source": {"sharing": Sharing.SOURCE},
    }[which]
    mask = replace(FEATURE_MASK, antithetic=antithetic, **options)  # type: ignore[arg-type]
    got = torch.empty(EDGES, NUMBERS, dtype=torch.int32)
    ids = padded(PART.draw_dst), padded(PART.draw_src), padded(PART.rank)
    _draw[(1,)](
        got, *ids, mask.key, which == "source", which == "symmetric", antithetic, EDGES, NUMBERS
    )
    wanted = drawn(PART, mask, NUMBERS, torch.arange(PART.num_edges))
    assert torch.equal(got[: PART.num_edges].long(), wanted)


@pytest.mark.parametrize(
    ("temperature", "dtype"),
    [(0.05, torch.float32), (0.05, torch.float64), (0.67, torch.float32), (3.0, torch.float64)],
)
def test_relaxed_masks_and_slopes_are_exact_to_a_few_bits(
    temperature: float, dtype: torch.dtype
) -> None:
    values = torch.arange(0, 65536, 31)[:2048]
    bound = draws.widest_logit(temperature)
    logits = 8.0 * normal(2048, seed=1).to(dtype)
    # at the bound between masks that read 12 bits and all 16, and beyond any
    extremes = torch.tensor([bound, -bound, torch.inf, -torch.inf], dtype=dtype)
    logits[:4], logits[4:6] = extremes, torch.nextafter(extremes[:2], 9.0 * extremes[:2])
    mask = Mask(Kind.CONCRETE, logits, FEATURE_MASK.key, temperature=temperature)
    exact = logits.double().requires_grad_()
    wanted = draws.multipliers(values, mask, exact, torch.float64)
    (slope,) = torch.autograd.grad(wanted.sum(), exact)
    kept, slopes = torch.empty(2, 2048).unbind()
    _relax[(1,)](kept, slopes, values.int(), logits, bound, 1.0 / temperature, 2048)
    torch.testing.assert_close(kept.double(), wanted.detach(), rtol=3e-5, atol=2e-7)
    finite = logits.isfinite()  # where autograd knows the slope
    torch.testing.assert_close(
        slopes[finite].double() / temperature, slope[finite], rtol=3e-5, atol=2e-7
    )
    assert slopes[~finite].eq(0.0).all()


def test_features_fall_into_the_same_blocks() -> None:
    for features, blocks in itertools.product((1, 5, 7, 16, 60), (1, 2, 3, 5, 7)):
        if blocks <= features:
            got = torch.empty(64, dtype=torch.int32)
            _blocks[(1,)](got, features, blocks, 64)
            wanted = draws.block_of_feature(features, blocks)
            assert torch.equal(got[:features].long(), wanted)


pytest.importorskip("triton")


EXAMPLES = 5


NODES = 12


GRAPH = Graph.from_edge_index(power_law_edges(NODES, 40), NODES)


@pytest.fixture(autouse=True, scope="module")
def short_segments() -> Iterator[None]:
    """Rows of more than 8 edges are split: hubs of small graphs are, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structure, "SPAN", 8)
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


@pytest.mark.parametrize("outward", [False, True])
def test_a_hub_is_summed_in_segments_in_both_directions(outward: bool) -> None:
    spokes = torch.arange(1, 41)
    star = torch.stack([spokes, torch.zeros_like(spokes)])
    graph = Graph.from_edge_index(star.flip(0) if outward else star, 41)
    logit = normal(graph.num_edges) if outward else torch.tensor(0.3)
    mask = Mask(Kind.CONCRETE, logit, stream_key(3), blocks=None)
    assert_fused_is_exact(graph, normal(41, 5), mask, normal(41, 5, seed=1), "triton")


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
