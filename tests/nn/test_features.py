"""Sparse features are what the dense ones are, and never become dense."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from contracts.allocations import allocations
from contracts.masked_sums import normal
from graphdrop.graph import Graph
from graphdrop.nn import GCN, features
from graphdrop.nn.features import LazyMatrix, SparseFeatures, drop_dense
from graphdrop.sampling.rates import BetaBernoulliRate, FixedRate, LearnedRate
from graphdrop.sampling.samplers import Draw, DropOut

csr_is_young = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")


ROWS = torch.tensor([4, 0])


def matrix(rows: int = 7, columns: int = 5, seed: int = 1) -> Tensor:
    """About half zeros, an empty row and an empty column."""
    x = normal(rows, columns, seed=seed) * (normal(rows, columns, seed=seed + 1) > 0.0)
    x[2], x[:, 3] = 0.0, 0.0
    return x


def reading(rows: int, nodes: Tensor | None = None) -> Graph:
    """A graph whose sources are so many nodes, under ids of their own if given."""
    graph = Graph.from_edge_index(torch.arange(rows).expand(2, -1), rows)
    return graph if nodes is None else replace(graph, src_ids=nodes, dst_ids=nodes)


def dense(x: SparseFeatures) -> Tensor:
    return x.matmul(torch.eye(x.shape[1]))


def uncoalesced(x: Tensor) -> Tensor:
    """The same matrix in two halves of every entry, and a zero that is stored."""
    indices, values = x.to_sparse().indices(), x.to_sparse().values()
    zero = torch.tensor([[0], [3]])
    return torch.sparse_coo_tensor(
        torch.cat([indices.flip(1), indices, zero], 1),
        torch.cat([values.flip(0) / 2, values / 2, torch.zeros(1)]),
        x.shape,
        check_invariants=True,
    )


@csr_is_young
@pytest.mark.parametrize(
    "form", [torch.clone, Tensor.to_sparse, Tensor.to_sparse_csr, Tensor.to_sparse_csc, uncoalesced]
)
def test_features_can_come_in_any_layout(form: Callable[[Tensor], Tensor]) -> None:
    x = matrix()
    sparse = SparseFeatures.from_tensor(form(x))
    assert sparse.shape == (7, 5)
    assert sparse.matrix.num_entries == int(x.count_nonzero())
    assert torch.equal(dense(sparse), x)


def test_rows_can_be_selected_in_any_order() -> None:
    x, nodes = matrix(), torch.tensor([6, 2, 0, 3])
    assert torch.equal(dense(SparseFeatures.from_tensor(x).select(nodes)), x[nodes])
    assert SparseFeatures.from_tensor(x).select(nodes[:0]).shape == (0, 5)


@pytest.mark.parametrize(("first", "last"), [(0, 2), (2, 5), (3, 4), (1, 1)])
def test_columns_can_be_selected(first: int, last: int) -> None:
    x = matrix()
    columns = SparseFeatures.from_tensor(x).columns(first, last)
    assert columns.shape == (7, last - first)
    assert torch.equal(dense(columns), x[:, first:last])


@pytest.mark.parametrize(
    ("draw", "nodes"),
    [
        (None, None),
        (Draw(1, 2), torch.tensor([9, 4, 0, 3, 70_000, 1, 2])),
        (Draw(1, 2).opposite(), None),
        (Draw(1, 2, temperature=0.67), torch.tensor([9, 4, 0, 3, 70_000, 1, 2])),
    ],
    ids=["mean", "hard", "opposite", "relaxed"],
)
def test_dropout_draws_the_same_for_sparse_and_dense_input(
    draw: Draw | None, nodes: Tensor | None
) -> None:
    x = matrix(columns=40)
    sparse = SparseFeatures.from_tensor(x)
    mask = DropOut(FixedRate(keep=0.6)).mask(reading(7), draw, 3)
    wanted = drop_dense(x, mask, reading(7, nodes))
    assert 0.0 < float((wanted / x).nanmean()) < 1.0
    torch.testing.assert_close(dense(sparse.drop(mask, nodes)), wanted)


@pytest.mark.parametrize("run", [1, 3, 1 << 20])
def test_the_gradient_reaches_the_values_through_drops_scales_and_columns(
    run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "GATHERED_BYTES", run * 8 * 3)
    x, weight, gradient = matrix(), normal(2, 3, seed=4), normal(7, 3, seed=5)
    graph, rate, factor = reading(7), LearnedRate(0.6), torch.tensor(1.5, requires_grad=True)
    sparse = SparseFeatures.from_tensor(x)
    mask = DropOut(rate).mask(reading(7), Draw(1, 2, temperature=0.67), 0)

    def gradients(product: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(product, [rate.keep_logit, factor], gradient)

    found = gradients(
        sparse.drop(mask, None).scaled(factor).drop(mask, None).columns(1, 3).matmul(weight)
    )
    twice = drop_dense(drop_dense(x, mask, graph), mask, graph) * factor
    wanted = gradients(twice[:, 1:3] @ weight)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_sparse_input_never_becomes_dense() -> None:
    nodes, columns, nonzeros = 20_000, 50_000, 200_000
    generator = torch.Generator().manual_seed(0)
    place = torch.stack(
        [torch.randint(size, (nonzeros,), generator=generator) for size in (nodes, columns)]
    )
    edges = torch.randint(nodes, (2, 40_000), generator=generator)
    model = GCN(columns, 5, 2, 3, DropOut(BetaBernoulliRate()), dropout=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows = torch.arange(100)

    def step() -> None:
        optimizer.zero_grad()
        x = torch.sparse_coo_tensor(
            place, torch.ones(nonzeros), (nodes, columns), check_invariants=True
        )
        (model(x, edges).square().mean() + model(x, edges, rows=rows).square().mean()).backward()
        optimizer.step()

    weight = next(model.parameters())
    before = weight.detach().clone()
    peak = allocations(step).peak
    assert not torch.equal(weight, before)
    assert peak < 100e6  # as one dense matrix the input alone has 4e9 bytes


X = torch.zeros(4, 6).index_put((torch.arange(4), torch.tensor([5, 0, 0, 2])), torch.rand(4))


def test_a_linear_layer_and_a_shape_need_no_dense_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = LazyMatrix.of(SparseFeatures.from_tensor(X))
    monkeypatch.setattr(SparseFeatures, "to_dense", lambda _: pytest.fail("it was made dense"))
    weight, bias = torch.rand(3, 6), torch.rand(3)
    torch.testing.assert_close(linear(lazy, weight), linear(X, weight))
    torch.testing.assert_close(linear(lazy, weight, bias=bias), linear(X, weight, bias))
    assert type(linear(lazy, weight)) is torch.Tensor
    assert (lazy.shape, lazy.size(-1), lazy.dim(), len(lazy)) == (X.shape, 6, 2, 4)
    assert (lazy.dtype, lazy.device, lazy.layout) == (X.dtype, X.device, X.layout)


def test_other_functions_read_the_entries() -> None:
    lazy = LazyMatrix.of(SparseFeatures.from_tensor(X))
    for function in (
        lambda x: x.relu(),
        lambda x: 2 * x[1:],
        lambda x: torch.cat([x, x]),
        lambda x: linear(torch.ones(2, 6), x),
        lambda x: torch.nn.functional.dropout(x, training=False),
    ):
        out = function(lazy)
        assert type(out) is torch.Tensor
        assert torch.equal(out, function(X))
