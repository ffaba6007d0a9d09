"""Architectures by name: sparse features give what dense ones do; DropOut is what it says."""

import pytest
import torch
from torch import Tensor

from graphdrop.nn.features import SparseFeatures, dropout
from graphdrop.nn.stack import ConvStack

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])
X = torch.zeros(5, 20).index_put(
    (torch.arange(5), torch.tensor([3, 3, 7, 0, 19])), torch.tensor(2.0)
)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("architecture", ["appnp", "gcnii"])
def test_few_nonzeros_are_multiplied_as_a_sparse_matrix_with_the_same_result(
    architecture: str, residual: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = ConvStack(architecture, 20, 8, 3, 2, residual=residual).eval()
    products: list[tuple[int, int]] = []
    matmul = SparseFeatures.matmul
    monkeypatch.setattr(
        SparseFeatures, "matmul", lambda x, w: products.append(x.shape) or matmul(x, w)
    )

    def outcome(x: Tensor) -> tuple[Tensor, list[Tensor]]:
        out = stack(x, EDGES)
        return out, list(torch.autograd.grad(out.square().sum(), list(stack.parameters())))

    sparse, sparse_gradients = outcome(X)
    assert products
    count = len(products)
    dense, dense_gradients = outcome(X.clone().requires_grad_())  # which sparse ones cannot have
    assert len(products) == count
    torch.testing.assert_close(sparse, dense)
    torch.testing.assert_close(sparse_gradients, dense_gradients)


def test_dropout_keeps_each_entry_as_often_as_it_says_and_the_mean() -> None:
    torch.manual_seed(0)
    x = torch.ones(200, 500)
    kept = dropout(x, 0.6)
    assert isinstance(kept, Tensor)
    assert set(kept.unique().tolist()) == {0.0, 2.5}
    assert float((kept > 0).float().mean()) == pytest.approx(0.4, abs=0.01)  # six deviations
    assert dropout(x, 0.0) is x
