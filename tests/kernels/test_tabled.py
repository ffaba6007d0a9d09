"""Masks with a table: both backends multiply by the same numbers and give the same gradients."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from contracts.masked_sums import assert_within, normal, power_law_edges
from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, Sharing, Table, stream_key
from graphdrop.kernels import aggregate, samples
from graphdrop.kernels import reference as plain
from graphdrop.kernels.reference import materialize
from graphdrop.kernels.samples import aggregate_stacked

NODES = 40
GRAPH = Graph.from_edge_index(power_law_edges(NODES, 300), NODES)
CHANNELS = {"one": (7, 1), "even": (64, 2), "lanes": (7, 3), "each": (7, None)}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "antithetic": {"antithetic": True},
    "symmetric": {"symmetric": True, "self_loops": False},
    "source": {"sharing": Sharing.SOURCE},
    "before": {"before_normalization": True},
}


def table(bits: int = 12, seed: int = 2) -> Table:
    """Rising multipliers, and slopes of either sign."""
    multiplier = torch.linspace(0.0, 1.0, 1 << bits, dtype=torch.float64) ** seed
    slopes = normal(2, 1 << bits, seed=seed).double()
    return Table(multiplier, slopes, torch.tensor([0.5, 2.0], requires_grad=True))


def masked(written: Table, **options: Any) -> Mask:
    return Mask(Kind.CONCRETE, torch.tensor(0.3), stream_key(3), table=written, **options)


def passes(graph: Graph, x: Tensor, mask: Mask, gradient: Tensor, backend: str) -> list[Tensor]:
    """The sum, and the gradients for the input and for the table's parameters."""
    assert mask.table is not None
    x = x.detach().requires_grad_()
    value = aggregate(graph, x, mask, backend=backend)
    gradients = torch.autograd.grad(value, [x, mask.table.parameters], gradient)
    return [value.detach(), *gradients]


@pytest.mark.parametrize(
    ("channel", "options"),
    [
        *((channel, "plain") for channel in CHANNELS),
        *(("lanes", options) for options in OPTIONS if options != "plain"),
        ("one", "antithetic"),
        ("each", "symmetric"),
        ("even", "source"),
        ("each", "before"),
    ],
)
def test_the_fused_kernel_computes_what_the_reference_computes(channel: str, options: str) -> None:
    features, blocks = CHANNELS[channel]
    mask = masked(table(16 if options == "antithetic" else 12), blocks=blocks, **OPTIONS[options])
    x, gradient = normal(NODES, features), normal(NODES, features, seed=1)
    fused = passes(GRAPH, x, mask, gradient, "fused")
    exact = (GRAPH.double(), x.double(), mask, gradient.double())
    for got, wanted in zip(fused, passes(*exact, "reference"), strict=True):
        assert_within(got, wanted, wanted.abs().max())


def test_both_backends_multiply_by_the_same_bits() -> None:
    mask, each = masked(table(), blocks=None), torch.eye(NODES)
    graph = Graph.from_edge_index(
        torch.unique(power_law_edges(NODES, 300), dim=1), NODES, normalization="none"
    )
    written = materialize(graph, mask, NODES)
    read = aggregate(graph, each, mask, backend="fused")  # column u has what u alone sends
    edges = torch.arange(graph.num_edges)
    source, destination = graph.indices.long(), graph.edge_dst.long()
    assert torch.equal(read[destination, source], written[edges, source].detach())
    opposite = materialize(graph, replace(mask, antithetic=True), NODES)
    assert not torch.equal(opposite, written)


def test_the_reference_in_many_runs_of_edges_has_the_same_gradients() -> None:
    mask, x = masked(table(), blocks=2), normal(NODES, 6).requires_grad_()
    assert mask.table is not None
    inputs = [x, mask.table.parameters]
    one, many = (plain.aggregate(GRAPH, x, mask, size) for size in (1 << 28, 2000))
    for whole, parted in zip(
        torch.autograd.grad(one.square().sum(), inputs),
        torch.autograd.grad(many.square().sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(parted, whole)


def test_the_gradients_do_not_depend_on_the_number_of_threads() -> None:
    graph = Graph.from_edge_index(power_law_edges(3000, 20000), 3000)
    x, gradient = normal(3000, 7), normal(3000, 7, seed=1)
    mask = masked(table(), blocks=2)
    threads, both = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            both.append(passes(graph, x, mask, gradient, "fused"))
    finally:
        torch.set_num_threads(threads)
    for one, other in zip(*both, strict=True):
        torch.testing.assert_close(one, other)


def test_samples_with_tables_drawn_together_have_the_bits_of_each_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = normal(NODES, 7)
    masks = [
        replace(masked(table(bits, seed)), key=stream_key(1, sample=seed))
        for seed, bits in ((1, 12), (2, 16), (3, 12))
    ]
    masks.append(replace(masks[0], table=None))
    alone = [aggregate(GRAPH, x, mask).detach() for mask in masks]
    monkeypatch.delattr(samples, "aggregate")  # so that they do go together
    assert all(map(torch.equal, aggregate_stacked(GRAPH, x[:, None], masks).unbind(1), alone))


def test_a_table_that_fits_no_mask_is_refused() -> None:
    with pytest.raises(ValueError, match="table must be left out unless the mask is concrete"):
        replace(masked(table()), kind=Kind.HARD)
    with pytest.raises(ValueError, match=r"a power of 2 of multipliers.*got 3 multipliers"):
        Table(torch.zeros(3), torch.zeros(1, 3), torch.zeros(1))
