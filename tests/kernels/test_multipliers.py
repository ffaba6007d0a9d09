"""The masks inside the fused kernel, read back one by one, are the ones the reference makes."""

from dataclasses import replace
from itertools import cycle

import pytest
import torch
from torch import Tensor

from contracts.masked_sums import assert_fused_is_exact, normal, passes, power_law_edges
from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, Sharing, reads_all_bits, stream_key
from graphdrop.kernels import aggregate, cpu
from graphdrop.kernels.reference import draw_values, materialize

NODES = 20


PAIRS = torch.unique(power_law_edges(NODES, 120), dim=1)


GRAPH = Graph.from_edge_index(PAIRS, NODES, normalization="none")


MASKS = {
    "an edge": Mask(Kind.HARD, torch.tensor(0.4), stream_key(7)),
    "an edge both ways": Mask(Kind.HARD, torch.tensor(0.4), stream_key(7), symmetric=True),
    "an edge, antithetic": Mask(Kind.HARD, torch.tensor(0.4), stream_key(7), antithetic=True),
    "all but self-loops": Mask(Kind.HARD, torch.tensor(0.4), stream_key(7), self_loops=False),
    "an edge and block": Mask(Kind.HARD, torch.tensor(0.4), stream_key(7), blocks=3),
    "an edge and feature": Mask(Kind.HARD, torch.tensor(0.4), stream_key(7), blocks=None),
    "a source and feature": Mask(
        Kind.HARD, torch.tensor(0.4), stream_key(7), blocks=None, sharing=Sharing.SOURCE
    ),
    "an edge with its rate": Mask(
        Kind.HARD, normal(GRAPH.num_edges, seed=1), stream_key(7), blocks=None
    ),
}


def fused_mask(graph: Graph, mask: Mask, features: int, *, backward: bool = False) -> Tensor:
    """`[edges, features]`: one node alone sends ones, so each sum has at most one term.

    The backward pass is asked the same way: one node alone has a gradient.
    """
    read = torch.empty(graph.num_edges, features)
    sent, zeros = torch.ones(features), torch.zeros(graph.num_src, features)
    for node in range(graph.num_src):
        one = zeros.clone()
        one[node] = sent
        if backward:
            edges = graph.edge_dst == node
            read[edges] = passes(graph, zeros, mask, one, "fused").x_gradient[
                graph.indices[edges].long()
            ]
        else:
            edges = graph.indices == node
            read[edges] = aggregate(graph, one, mask, backend="fused")[graph.edge_dst[edges].long()]
    return read


@pytest.mark.parametrize(("features", "backward"), [(7, False), (33, True)])
@pytest.mark.parametrize("name", MASKS)
def test_hard_masks_are_the_same_bits(name: str, features: int, backward: bool) -> None:
    mask = MASKS[name]
    read = fused_mask(GRAPH, mask, features, backward=backward)
    assert torch.equal(read, materialize(GRAPH, mask, features))
    assert 0.0 < float(read.mean()) < 1.0


@pytest.mark.parametrize(  # the draws are those of hard masks, which are compared in both passes
    ("name", "backward"), list(zip(MASKS, cycle([False, True])))
)
def test_concrete_masks_are_the_same_to_a_millionth(name: str, backward: bool) -> None:
    mask = replace(MASKS[name], kind=Kind.CONCRETE)
    read = fused_mask(GRAPH, mask, 7, backward=backward)
    wanted = materialize(GRAPH, mask, 7, dtype=torch.float64)
    torch.testing.assert_close(read.double(), wanted, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize(
    ("backend", "per_edge", "antithetic"),
    [
        ("fused", False, False),
        ("fused", False, True),
        ("fused", True, True),
        ("reference", False, True),
        ("reference", True, False),
    ],
)
def test_a_draw_at_its_threshold_is_kept_and_one_below_is_dropped(
    backend: str, per_edge: bool, antithetic: bool
) -> None:
    plain = Mask(Kind.HARD, torch.tensor(0.0), stream_key(5), antithetic=antithetic)
    drawn = draw_values(GRAPH, plain, 1, torch.arange(GRAPH.num_edges))[:, 0]
    ones = torch.ones(NODES, 1)
    for edge in [5] if per_edge else range(GRAPH.num_edges):
        for above, kept in ((0, 1.0), (1, 0.0)):
            drop = ((drawn if per_edge else drawn[edge]) + above).double() / 2**16
            mask = replace(plain, keep_logit=-torch.logit(drop))
            wanted = materialize(GRAPH, mask, 1)
            assert bool((wanted == kept).all()) if per_edge else wanted[edge] == kept
            sums = aggregate(GRAPH, ones, mask, backend=backend)
            by_hand = torch.zeros(NODES, 1).index_add(0, GRAPH.edge_dst, wanted)
            assert torch.equal(sums, by_hand)


@pytest.mark.parametrize("kind", [Kind.HARD, Kind.CONCRETE, Kind.MEAN])
@pytest.mark.parametrize("per_edge", [False, True])
def test_a_keep_of_1_keeps_everything_and_of_0_nothing(kind: Kind, per_edge: bool) -> None:
    graph = Graph.from_edge_index(PAIRS, NODES)
    x, gradient = normal(NODES, 7), normal(NODES, 7, seed=1)
    plain = passes(graph, x, Mask(Kind.NONE, torch.zeros(()), stream_key(0)), gradient, "fused")
    for logit, wanted in ((torch.inf, 1.0), (-torch.inf, 0.0)):
        rate = torch.full((graph.num_edges,) if per_edge else (), logit)
        mask = Mask(kind, rate, stream_key(3), blocks=None)
        sums = passes(graph, x, mask, gradient, "fused")
        assert torch.equal(sums.value, wanted * plain.value)
        assert torch.equal(sums.x_gradient, wanted * plain.x_gradient)
        if sums.logit_gradient is not None:
            assert torch.equal(sums.logit_gradient, torch.zeros_like(rate))


HUB_NODES = 40


HUB_GRAPH = Graph.from_edge_index(power_law_edges(HUB_NODES, 300), HUB_NODES)


# those of up to 16 features are compiled for other tests as well
CHANNELS = {"one": (7, 1), "even": (64, 2), "blocks": (96, 3), "lanes": (7, 3), "each": (7, None)}


def logits(per_edge: bool) -> Tensor:
    """An extreme logit, or for every edge one that may be."""
    return 3.0 * normal(HUB_GRAPH.num_edges, seed=5) if per_edge else torch.tensor(7.5)


@pytest.mark.parametrize(
    ("channel", "per_edge", "antithetic"),
    [
        *((channel, False, True) for channel in ("one", "even", "lanes", "each")),
        *((channel, True, False) for channel in ("one", "blocks", "lanes", "each")),
    ],
)
def test_the_fused_kernel_computes_what_the_reference_computes(
    channel: str, per_edge: bool, antithetic: bool
) -> None:
    (features, blocks), temperature = CHANNELS[channel], 0.14 if per_edge else 0.05
    mask = Mask(
        Kind.CONCRETE,
        logits(per_edge),
        stream_key(3),
        blocks=blocks,
        temperature=temperature,
        antithetic=antithetic,
    )
    whole = reads_all_bits(mask.keep_logit, temperature)
    assert bool(whole.any()) and bool(whole.all()) != per_edge  # noqa: PT018 - some, or all
    x, gradient = normal(HUB_NODES, features), normal(HUB_NODES, features, seed=1)
    assert_fused_is_exact(HUB_GRAPH, x, mask, gradient)


def test_rates_per_edge_too_extreme_for_float32_at_their_temperature_go_to_the_reference() -> None:
    def fits(logit: float, temperature: float) -> bool:
        keep_logit = torch.tensor([0.0, logit])
        return cpu.supports(Mask(Kind.CONCRETE, keep_logit, stream_key(0), temperature=temperature))

    assert fits(2.0, 0.12)
    assert not fits(9.0, 0.12)
    assert fits(9.0, 0.14)
    assert not fits(2.0, 0.11)


@pytest.mark.parametrize(
    ("logit", "per_edge"), [(-80.0, False), (-30.0, True), (30.0, False), (80.0, True)]
)
def test_masks_beyond_all_draws_are_zero_or_one_and_finite(logit: float, per_edge: bool) -> None:
    keep_logit = torch.full((HUB_GRAPH.num_edges,) if per_edge else (), logit)
    mask = Mask(Kind.CONCRETE, keep_logit, stream_key(3), temperature=0.14)
    x, gradient = normal(HUB_NODES, 5), normal(HUB_NODES, 5, seed=1)
    got = passes(HUB_GRAPH, x, mask, gradient, "fused")
    wanted = aggregate(HUB_GRAPH, x) * (logit > 0.0)
    torch.testing.assert_close(got.value, wanted)
    assert got.logit_gradient is not None
    assert got.logit_gradient.isfinite().all()
