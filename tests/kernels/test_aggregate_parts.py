"""A part of a graph computes its rows as the whole graph would: same draws, same degrees."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from contracts.masked_sums import normal, power_law_edges
from graphdrop.graph import Graph, Normalization
from graphdrop.graph.masks import Kind, Mask, Sharing, stream_key
from graphdrop.kernels import aggregate
from graphdrop.kernels.reference import materialize

NODES, FEATURES, LAYERS = 60, 7, 3
ROWS = torch.tensor([3, 17, 20, 41, 59])
BACKENDS = ("fused", "reference")


def graph(kind: Normalization | str = Normalization.SYM) -> Graph:
    return Graph.from_edge_index(power_law_edges(NODES - 10, 90), NODES, normalization=kind)


def layer_mask(layer: int, logit: Tensor, *, before: bool = False) -> Mask:
    """A fresh mask for each layer."""
    key = stream_key(2, layer=layer)
    return Mask(Kind.CONCRETE, logit, key, blocks=2, before_normalization=before)


def chain(parts: list[Graph], x: Tensor, logit: Tensor, *, before: bool, backend: str) -> Tensor:
    """Some layers one after the other; a logit per edge is one for each edge of the whole."""
    for layer, part in enumerate(parts):
        mask = layer_mask(layer, logit, before=before)
        x = torch.tanh(aggregate(part, x, mask, backend=backend))
    return x


def assert_the_field_computes_the_rows(
    whole: Graph, logit: Tensor, *, before: bool, backend: str
) -> None:
    field = whole.receptive_field(ROWS, LAYERS)
    columns = field[0].src_ids
    assert columns is not None
    assert len(columns) < NODES, "the field must be smaller than the graph for this to say anything"
    x = normal(NODES, FEATURES).requires_grad_()
    gradient = normal(len(ROWS), FEATURES, seed=1)
    all_rows = chain([whole] * LAYERS, x, logit, before=before, backend=backend)[ROWS]
    rows = chain(field, x[columns.long()], logit, before=before, backend=backend)
    if backend == "fused" and not before:
        assert torch.equal(rows, all_rows), "a row is the same sum in the same order"
    torch.testing.assert_close(rows, all_rows)
    for got, wanted in zip(
        torch.autograd.grad(rows, [x, logit], gradient),
        torch.autograd.grad(all_rows, [x, logit], gradient),
        strict=True,
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "before", "backend"),
    [
        *((kind, True, "fused") for kind in Normalization),
        *((kind, False, "fused") for kind in (Normalization.ROW, Normalization.PAPER)),
        *((kind, True, "reference") for kind in (Normalization.SYM, Normalization.NONE)),
    ],
)
def test_a_receptive_field_computes_its_rows_exactly(
    kind: Normalization, before: bool, backend: str
) -> None:
    logit = torch.tensor(0.5, requires_grad=True)
    assert_the_field_computes_the_rows(graph(kind), logit, before=before, backend=backend)


@pytest.mark.parametrize(
    ("kind", "before", "backend"),
    [
        (Normalization.SYM, False, "fused"),
        (Normalization.SYM, False, "reference"),
        *((kind, True, "fused") for kind in Normalization),
        (Normalization.SYM, True, "reference"),
    ],
)
def test_a_rate_for_each_edge_follows_its_edge_into_a_part(
    kind: Normalization, before: bool, backend: str
) -> None:
    whole = graph(kind)
    logit = normal(whole.num_edges, seed=4).requires_grad_()
    assert_the_field_computes_the_rows(whole, logit, before=before, backend=backend)


@pytest.mark.parametrize(
    ("sharing", "symmetric"), [(Sharing.EDGE, False), (Sharing.EDGE, True), (Sharing.SOURCE, False)]
)
def test_an_edge_has_the_same_draws_in_any_part(sharing: Sharing, symmetric: bool) -> None:
    whole = graph()
    mask = Mask(
        Kind.HARD,
        torch.tensor(0.5),
        stream_key(2),
        blocks=None,
        sharing=sharing,
        symmetric=symmetric,
    )
    drawn = materialize(whole, mask, FEATURES)
    for rows in (ROWS, ROWS.flip(0), torch.arange(NODES)):
        part = whole.rows(rows)
        assert part.parent_edge is not None
        assert torch.equal(materialize(part, mask, FEATURES), drawn[part.parent_edge.long()])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("symmetric", [False, True])
def test_renumbered_nodes_that_carry_their_ids_along_draw_the_same_masks(
    symmetric: bool, backend: str
) -> None:
    edge_index, x = torch.unique(power_law_edges(NODES, 300), dim=1), normal(NODES, FEATURES)
    mask = replace(layer_mask(0, torch.tensor(0.5)), symmetric=symmetric)
    number = torch.randperm(NODES, generator=torch.Generator().manual_seed(1))
    node_of = number.argsort()
    renumbered = Graph.from_edge_index(number[edge_index], NODES)
    named = replace(renumbered, dst_ids=node_of.int(), src_ids=node_of.int())
    wanted = aggregate(Graph.from_edge_index(edge_index, NODES), x, mask, backend=backend)
    got = aggregate(named, x[node_of], mask, backend=backend)
    torch.testing.assert_close(got[number], wanted)
    nameless = aggregate(renumbered, x[node_of], mask, backend=backend)
    assert not torch.allclose(nameless[number], wanted), "without ids the draws are others"
