"""Architectures by name: sparse features give what dense ones do; DropOut is what it says."""

import pytest
import torch
from torch import Tensor

from graphdrop import BetaBernoulliRate, DropNode, GraphDropConnect
from graphdrop.nn.attach import attach
from graphdrop.nn.features import SparseFeatures
from graphdrop.nn.stack import ConvStack
from graphdrop.sampling.samplers import Sampler

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])
X = torch.zeros(5, 20).index_put(
    (torch.arange(5), torch.tensor([3, 3, 7, 0, 19])), torch.tensor(2.0)
)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("architecture", ["appnp", "gcnii", "gat", "gatv2", "sage"])
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


@pytest.mark.parametrize(  # a layer that multiplies before its messages, and one that does after
    ("architecture", "sampler", "training"),
    [
        ("sage", GraphDropConnect(BetaBernoulliRate(), blocks=2, first_blocks=2), True),
        ("sage", GraphDropConnect(BetaBernoulliRate(), blocks=None, first_blocks=None), True),
        ("sage", DropNode(0.5, rescale=True), False),
        ("gat", GraphDropConnect(BetaBernoulliRate(), blocks=2), True),
        ("gatv2", DropNode(0.5, rescale=True), True),
    ],
)
def test_masks_of_an_attached_sampler_act_on_sparse_features_as_on_dense_ones(
    architecture: str, sampler: Sampler, training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[int, int]] = []
    to_dense = SparseFeatures.to_dense
    monkeypatch.setattr(SparseFeatures, "to_dense", lambda x: made.append(x.shape) or to_dense(x))

    def outcome(x: Tensor) -> tuple[Tensor, list[Tensor | None]]:
        torch.manual_seed(0)
        stack = ConvStack(architecture, 20, 8, 2, 3, residual=True).train(training)
        attach(stack, sampler, seed=3)
        out = stack(x, EDGES)
        own = list(stack.parameters())
        return out, list(torch.autograd.grad(out.square().sum(), own, allow_unused=True))

    torch.testing.assert_close(outcome(X), outcome(X.clone().requires_grad_()))
    # a mask per feature acts before the weights: the mean over neighbours is that of dense features
    assert bool(made) == (architecture == "sage" and getattr(sampler, "first_blocks", 1) is None)


@pytest.mark.parametrize("architecture", ["gat", "gatv2", "sage"])
def test_dropout_of_sparse_features_draws_for_nonzeros_alone(
    architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    read: list[Tensor] = []
    matmul = SparseFeatures.matmul
    monkeypatch.setattr(
        SparseFeatures, "matmul", lambda x, w: read.append(x.matrix.value) or matmul(x, w)
    )
    x = torch.zeros(1000, 500)
    x[:, :50] = 2.0
    stack = ConvStack(architecture, 500, 8, 2, 3, dropout=0.6)
    stack(x, EDGES)
    assert all(value is read[0] for value in read)  # one draw for all linear maps of the layer
    assert read[0].shape == (50_000,)
    assert set(read[0].unique().tolist()) == {0.0, 5.0}
    assert float((read[0] > 0).float().mean()) == pytest.approx(0.4, abs=0.0132)  # six deviations
    read.clear()
    stack.eval()(x, EDGES)
    assert set(read[0].unique().tolist()) == {2.0}


@pytest.mark.parametrize(
    ("architecture", "layer"),
    [
        ("gat", ["att_src", "att_dst", "bias", "lin.weight"]),
        ("sage", ["lin_l.weight", "lin_l.bias", "lin_r.weight"]),
    ],
)
def test_saved_weights_keep_their_names(architecture: str, layer: list[str]) -> None:
    assert list(ConvStack(architecture, 20, 8, 2, 3).state_dict()) == [
        f"convs.{number}.{name}" for number in range(2) for name in layer
    ]
