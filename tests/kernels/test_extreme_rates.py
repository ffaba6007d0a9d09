"""The fused kernel at extreme rates and low temperatures: the reference's masks, all 16 bits."""

import pytest
import torch
from torch import Tensor

from contracts.masked_sums import assert_fused_is_exact, normal, passes, power_law_edges
from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, reads_all_bits, stream_key
from graphdrop.kernels import aggregate, cpu, samples
from graphdrop.kernels.samples import aggregate_stacked

NODES = 40
GRAPH = Graph.from_edge_index(power_law_edges(NODES, 300), NODES)
# those of up to 16 features are compiled for other tests as well
CHANNELS = {"one": (7, 1), "even": (64, 2), "blocks": (96, 3), "lanes": (7, 3), "each": (7, None)}


def logits(per_edge: bool) -> Tensor:
    """An extreme logit, or for every edge one that may be."""
    return 3.0 * normal(GRAPH.num_edges, seed=5) if per_edge else torch.tensor(7.5)


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
    x, gradient = normal(NODES, features), normal(NODES, features, seed=1)
    assert_fused_is_exact(GRAPH, x, mask, gradient)


def test_samples_with_ordinary_and_extreme_rates_have_the_bits_of_each_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = normal(NODES, 7)
    masks = [
        Mask(Kind.CONCRETE, torch.tensor(logit), stream_key(1, sample=sample), blocks=None)
        for sample, logit in enumerate((0.3, -9.0, 7.0))
    ]
    alone = [aggregate(GRAPH, x, mask) for mask in masks]
    monkeypatch.delattr(samples, "aggregate")  # so that they do go together
    assert all(map(torch.equal, aggregate_stacked(GRAPH, x[:, None], masks).unbind(1), alone))


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
    keep_logit = torch.full((GRAPH.num_edges,) if per_edge else (), logit)
    mask = Mask(Kind.CONCRETE, keep_logit, stream_key(3), temperature=0.14)
    x, gradient = normal(NODES, 5), normal(NODES, 5, seed=1)
    got = passes(GRAPH, x, mask, gradient, "fused")
    wanted = aggregate(GRAPH, x) * (logit > 0.0)
    torch.testing.assert_close(got.value, wanted)
    assert got.logit_gradient is not None
    assert got.logit_gradient.isfinite().all()
