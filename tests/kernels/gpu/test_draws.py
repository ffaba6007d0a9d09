"""The hash and the rules in Triton give the same bits as the CPU does, interpreted on the CPU."""

# ruff: noqa: E402 - Triton is looked for first

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

triton = pytest.importorskip("triton")
import triton.language as tl

from contracts.masked_sums import normal, power_law_edges
from graphdrop.graph import Graph
from graphdrop.graph import masks as draws
from graphdrop.graph.masks import Kind, Mask, Sharing, stream_key
from graphdrop.kernels.gpu.draws import block_numbers, draw_values, edge_bits, relaxed
from graphdrop.kernels.reference import draw_values as drawn

GRAPH = Graph.from_edge_index(power_law_edges(20, 60), 20).rows(torch.arange(3, 20))
EDGES, NUMBERS = triton.next_power_of_2(GRAPH.num_edges), 128
MASK = Mask(Kind.HARD, torch.tensor(0.3), stream_key(5, 2, 1), blocks=None)


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
    assert GRAPH.rank is not None  # parallel edges are among them
    options = {
        "edge": {},
        "symmetric": {"symmetric": True},
        "source": {"sharing": Sharing.SOURCE},
    }[which]
    mask = replace(MASK, antithetic=antithetic, **options)  # type: ignore[arg-type]
    got = torch.empty(EDGES, NUMBERS, dtype=torch.int32)
    ids = padded(GRAPH.draw_dst), padded(GRAPH.draw_src), padded(GRAPH.rank)
    _draw[(1,)](
        got, *ids, mask.key, which == "source", which == "symmetric", antithetic, EDGES, NUMBERS
    )
    wanted = drawn(GRAPH, mask, NUMBERS, torch.arange(GRAPH.num_edges))
    assert torch.equal(got[: GRAPH.num_edges].long(), wanted)


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
    mask = Mask(Kind.CONCRETE, logits, MASK.key, temperature=temperature)
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
