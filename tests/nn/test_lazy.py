"""A lazy matrix is multiplied without being dense, and reads as dense wherever else it is used."""

import pytest
import torch
from torch.nn.functional import linear

from graphdrop.nn.features import LazyMatrix, SparseFeatures

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
