"""Masks before normalization, `N(A * Z)`, against dense algebra, with gradients through `D`."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from hypothesis import strategies as st
from torch import Tensor

from contracts.edge_lists import EdgeList, edge_lists, for_all
from contracts.masked_sums import Sums, assert_within, normal, passes
from graphdrop.graph import Graph, Normalization
from graphdrop.graph import masks as draws
from graphdrop.graph.masks import Kind, Mask, Sharing, stream_key
from graphdrop.kernels import aggregate

Power = Callable[[Tensor, float], Tensor]


def power(total: Tensor, exponent: float) -> Tensor:
    """`total ** exponent`, where 0 to a negative power is 0."""
    return torch.where(total == 0.0, 0.0, torch.where(total == 0.0, 1.0, total) ** exponent)


def rising_power(total: Tensor, exponent: float) -> Tensor:
    """The same value with the opposite slope: all terms of a derivative are then positive."""
    return power(total.detach(), 2 * exponent) * power(total, -exponent)


@dataclass(frozen=True)
class Case:
    """A graph without parallel edges, a mask before its normalization, features, a gradient."""

    graph: Graph
    mask: Mask
    x: Tensor
    gradient: Tensor

    def dense_mask(self, logit: Tensor, block: int) -> Tensor:
        """`Z [n, n]`: every pair of nodes draws, an edge or not."""
        mask, graph = self.mask, self.graph
        v, u = torch.arange(graph.num_dst)[:, None], torch.arange(graph.num_src)
        if mask.symmetric:
            v, u = torch.maximum(v, u), torch.minimum(v, u)
        if mask.sharing is Sharing.SOURCE:
            v = torch.full_like(v, draws.SOURCE_ONLY)
        bits = draws.draw_bits(draws.edge_hash(mask.key, v, u), torch.tensor(block))
        uniform = (bits + 0.5) / 2**16
        if mask.kind is Kind.CONCRETE:
            uniform = (bits // 16 + 0.5) / 2**12
        uniform = (1.0 - uniform if mask.antithetic else uniform).double()
        if logit.dim() == 1:
            place = torch.zeros(graph.num_dst, graph.num_src, dtype=torch.int64)
            place[graph.edge_dst.long(), graph.indices.long()] = torch.arange(graph.num_edges)
            logit = logit[place] if graph.num_edges else torch.zeros(place.shape)
        if mask.kind is Kind.MEAN:
            return torch.sigmoid(logit.detach())
        if mask.kind is Kind.HARD:
            return (uniform > 1.0 - torch.sigmoid(logit.detach())).double()
        return torch.sigmoid((logit + torch.logit(uniform)) / mask.temperature)

    def matrix(self, logit: Tensor, block: int, power: Power) -> Tensor:
        """`N(A * Z)` for one block; the identity is added after masking."""
        entries = torch.zeros(self.graph.num_dst, self.graph.num_src, dtype=torch.float64)
        entries[self.graph.edge_dst.long(), self.graph.indices.long()] = self.graph.weight.double()
        loops = torch.diag(entries.diagonal())
        masked = (entries - loops) * self.dense_mask(logit, block)
        kind = self.graph.normalization
        if kind is Normalization.NONE:
            return masked + loops
        if kind is Normalization.ROW:
            return (masked + loops) * power((masked + loops).sum(1), -1.0)[:, None]
        if kind is Normalization.SYM:
            scale = power((masked + loops).sum(1), -0.5)
            return scale[:, None] * (masked + loops) * scale
        scale = power(masked.sum(1), -0.5)
        return scale[:, None] * masked * scale + loops

    def by_dense_algebra(self, x: Tensor, gradient: Tensor, power: Power) -> Sums:
        x = x.double().requires_grad_()
        logit = self.mask.keep_logit.double().requires_grad_()
        block_of = draws.block_of_feature(x.shape[1], self.mask.blocks)
        value = torch.stack(
            [
                self.matrix(logit, int(block), power) @ x[:, feature]
                for feature, block in enumerate(block_of)
            ],
            1,
        )
        x_gradient, logit_gradient = torch.autograd.grad(
            value, [x, logit], gradient.double(), materialize_grads=True
        )
        return Sums(value.detach(), x_gradient, logit_gradient)


@st.composite
def cases(draw: st.DrawFn, kind: Kind) -> Case:
    edges = draw(edge_lists(parallel=False))
    graph = edges.graph(draw(st.sampled_from(Normalization)), self_loops=draw(st.booleans()))
    features, seed = draw(st.sampled_from((1, 5))), draw(st.integers(0, 10**6))
    logit = torch.tensor(draw(st.floats(-4.0, 4.0, width=32)))
    if draw(st.booleans()):
        logit = logit + normal(graph.num_edges, seed=seed)
    sharing = draw(st.sampled_from(Sharing))
    mask = Mask(
        kind,
        logit,
        stream_key(seed),
        sharing=sharing,
        blocks=draw(st.sampled_from((1, min(2, features), None))),
        symmetric=sharing is Sharing.EDGE and draw(st.booleans()),
        self_loops=draw(st.booleans()),
        antithetic=draw(st.booleans()),
        before_normalization=True,
    )
    rows = edges.num_nodes
    x, gradient = normal(rows, features, seed=seed), normal(rows, features, seed=seed + 1)
    return Case(graph, mask, x, gradient)


def check(case: Case) -> None:
    exact = case.by_dense_algebra(case.x, case.gradient, power)
    scale = case.by_dense_algebra(case.x.abs(), case.gradient.abs(), rising_power)
    double = replace(case.mask, keep_logit=case.mask.keep_logit.double())
    reference = passes(
        case.graph.double(), case.x.double(), double, case.gradient.double(), "reference"
    )
    fused = passes(case.graph, case.x, case.mask, case.gradient, "fused")
    for got, tolerance in ((reference, 1e-12), (fused, 1e-5)):
        assert_within(got.value, exact.value, scale.value, tolerance)
        assert_within(got.x_gradient, exact.x_gradient, scale.x_gradient, tolerance)
        if case.mask.kind is Kind.CONCRETE:
            assert got.logit_gradient is not None
            assert exact.logit_gradient is not None
            assert scale.logit_gradient is not None
            assert_within(got.logit_gradient, exact.logit_gradient, scale.logit_gradient, tolerance)


@for_all(cases(Kind.HARD))
def test_hard_masks_are_normalized_by_what_they_leave(case: Case) -> None:
    check(case)


@for_all(cases(Kind.CONCRETE))
def test_concrete_masks_pass_a_gradient_through_the_degrees(case: Case) -> None:
    check(case)


KITE = EdgeList(5, [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 3)], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])


def kite(kind: Normalization, logit: float) -> Case:
    mask = Mask(Kind.HARD, torch.tensor(logit), stream_key(1), before_normalization=True)
    return Case(KITE.graph(kind), mask, normal(5, 3), normal(5, 3))


def test_dropping_all_leaves_nothing_where_there_are_no_self_loops() -> None:
    case = kite(Normalization.SYM, -torch.inf)
    graph = EdgeList(3, [(0, 1), (1, 2)], [1.0, 1.0]).graph("sym", self_loops=False)
    x = case.x[:3].clone().requires_grad_()
    out = aggregate(graph, x, case.mask)
    out.sum().backward()  # type: ignore[no-untyped-call]
    assert torch.equal(out, torch.zeros(3, 3))
    assert x.grad is not None
    assert torch.equal(x.grad, torch.zeros(3, 3))
