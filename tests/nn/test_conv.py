"""One graph convolution: both orders of work agree, sparse input or dense, and how it starts."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from contracts.dense_layers import TOWN
from contracts.masked_sums import normal
from contracts.single_layers import one_pass
from graphdrop.graph import Graph
from graphdrop.graph.masks import Mask
from graphdrop.kernels import aggregate
from graphdrop.nn import SampledGCNConv, conv
from graphdrop.nn.conv import Order, SharedProduct
from graphdrop.nn.features import SparseFeatures
from graphdrop.sampling.rates import BetaBernoulliRate, FixedRate, LearnedRate
from graphdrop.sampling.samplers import Draw, DropEdge, DropNode, DropOut, GraphDropConnect, Sampler

NODES, FEATURES, OUTPUTS = TOWN.num_nodes, 5, 3
SAMPLERS: dict[str, Sampler | None] = {
    "none": None,
    "dropout": DropOut(FixedRate(keep=0.6)),
    "learned dropout": DropOut(LearnedRate(0.6)),
    "dropnode": DropNode(LearnedRate(0.6), rescale=True),
    "dropedge": DropEdge(FixedRate(keep=0.6)),
    "dropedge before": DropEdge(LearnedRate(0.6), before_normalization=True),
    "one block": GraphDropConnect(BetaBernoulliRate(), blocks=1),
    "two blocks": GraphDropConnect(BetaBernoulliRate(), blocks=2),
    "three blocks before": GraphDropConnect(
        LearnedRate(0.6), blocks=3, symmetric=True, before_normalization=True
    ),
    "per feature": GraphDropConnect(FixedRate(keep=0.6), blocks=None),
}
samplers = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)


def results(
    layer: SampledGCNConv, x: Tensor | SparseFeatures, draw: Draw | None
) -> tuple[Tensor, list[Tensor]]:
    """The output, and the gradients of all parameters that it has one for."""
    layer.zero_grad()
    out = one_pass(layer, x, TOWN.graph(), draw, 1)
    out.backward(normal(*out.shape, seed=9))
    return out, [p.grad for p in layer.parameters() if p.grad is not None]


def drawn(sampler: Sampler | None) -> Draw:
    learned = sampler is not None and any(True for _ in sampler.rate.parameters())
    return Draw(1, 2, temperature=0.67 if learned else None)


@pytest.mark.parametrize(
    ("name", "mean", "sparse"),
    [
        *((name, False, True) for name in SAMPLERS),
        *((name, False, False) for name in ("none", "learned dropout", "two blocks")),
        *((name, True, True) for name in ("dropout", "dropnode", "three blocks before")),
        ("dropedge before", True, False),
    ],
)
def test_both_orders_of_work_agree_on_dense_and_sparse_input(
    name: str, mean: bool, sparse: bool
) -> None:
    sampler = SAMPLERS[name]
    layer = SampledGCNConv(FEATURES, OUTPUTS, sampler, dropout=DropOut(FixedRate(keep=0.8)))
    draw = None if mean else drawn(sampler)
    x = normal(NODES, FEATURES, seed=1) * (normal(NODES, FEATURES, seed=2) > 0.0)
    layer.order = Order.AGGREGATE_FIRST
    wanted, wanted_gradients = results(layer, x, draw)
    layer.order = Order.TRANSFORM_FIRST
    found, gradients = results(layer, SparseFeatures.from_tensor(x) if sparse else x, draw)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(gradients, wanted_gradients, rtol=1e-4, atol=1e-5)
    parameters = len(list(layer.parameters()))
    assert mean or len(gradients) == parameters  # rates among them


@pytest.mark.parametrize("order", [Order.AGGREGATE_FIRST, Order.TRANSFORM_FIRST])
def test_both_orders_give_the_same_gradient_to_the_input(order: Order) -> None:
    layer = SampledGCNConv(FEATURES, OUTPUTS, SAMPLERS["two blocks"])
    x, draw = normal(NODES, FEATURES, seed=1).double().requires_grad_(), drawn(layer.sampler)
    layer.double()
    layer.order = order
    assert torch.autograd.gradcheck(lambda x: one_pass(layer, x, TOWN.graph().double(), draw), x)


@dataclass
class Spy:
    """Notes the width of everything that is aggregated."""

    widths: list[int] = field(default_factory=list)

    def __call__(self, graph: Graph, x: Tensor, mask: Mask | None = None) -> Tensor:
        self.widths.append(x.shape[1])
        return aggregate(graph, x, mask)


@pytest.mark.parametrize(
    ("features", "outputs", "blocks", "width"),
    [(12, 3, 1, 3), (3, 12, 1, 3), (300, 70, 2, 140), (12, 3, 2, 12), (12, 3, None, 12)],
)
def test_the_cheaper_order_is_taken(
    features: int, outputs: int, blocks: int | None, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy()
    monkeypatch.setattr(conv, "aggregate", spy)
    layer = SampledGCNConv(features, outputs, GraphDropConnect(FixedRate(keep=0.5), blocks=blocks))
    one_pass(layer, normal(NODES, features), TOWN.graph(), Draw(1, 1))
    assert spy.widths == [width]


def test_the_bias_is_added_once_after_the_sum_over_blocks() -> None:
    layer = SampledGCNConv(FEATURES, OUTPUTS, GraphDropConnect(FixedRate(keep=0.5), blocks=3))
    assert layer.bias is not None
    assert layer.bias.shape == (1, OUTPUTS)
    torch.nn.init.uniform_(layer.bias)
    nothing = torch.zeros(NODES, FEATURES)
    out = one_pass(layer, nothing, TOWN.graph(), Draw(1, 1))
    assert torch.equal(out, layer.bias.expand(NODES, OUTPUTS))


@pytest.mark.parametrize(
    ("sampler", "blocks"),
    [
        (None, 1),
        (DropOut(FixedRate(keep=0.5)), 1),
        (DropEdge(FixedRate(keep=0.5)), 1),
        (GraphDropConnect(FixedRate(keep=0.5), blocks=2), 2),
        (GraphDropConnect(FixedRate(keep=0.5), blocks=None), 1),
    ],
)
def test_the_paper_starts_with_a_bias_for_every_block_and_sums_them(
    sampler: Sampler | None, blocks: int
) -> None:
    layer = SampledGCNConv(FEATURES, OUTPUTS, sampler, init="paper")
    assert layer.bias is not None
    assert layer.bias.shape == (blocks, OUTPUTS)
    out = one_pass(layer, torch.zeros(NODES, FEATURES), TOWN.graph(), None)
    torch.testing.assert_close(out, layer.bias.sum(0).expand(NODES, OUTPUTS))


def test_the_papers_weights_are_normal_with_variance_one_over_outputs() -> None:
    layer = SampledGCNConv(800, 50, GraphDropConnect(FixedRate(keep=0.5), blocks=400), init="paper")
    weight = layer.weight.detach().flatten() * 50**0.5  # standard normal: 40,000 of them
    assert abs(weight.mean().item()) < 4 / 200
    assert weight.square().mean().item() == pytest.approx(1.0, abs=4 * 2**0.5 / 200)
    assert weight.pow(4).mean().item() == pytest.approx(3.0, abs=4 * 96**0.5 / 200)
    assert layer.bias is not None
    bias = layer.bias.detach().flatten() * 50**0.5  # uniform in ±1: 20,000 of them
    assert 0.999 < bias.abs().max().item() <= 1.0
    assert abs(bias.mean().item()) < 4 * (1 / 3 / 20_000) ** 0.5
    assert bias.square().mean().item() == pytest.approx(1 / 3, abs=4 * (4 / 45 / 20_000) ** 0.5)


@pytest.mark.parametrize(
    ("name", "products", "sparse"),
    [
        ("one block", 1, False),
        ("dropedge", 1, True),
        ("two blocks", 6, False),
        ("dropout", 3, True),
        ("dropout", 3, False),
    ],
)
def test_samples_share_the_product_that_no_mask_touches(
    name: str, products: int, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = SampledGCNConv(FEATURES, OUTPUTS, SAMPLERS[name])
    layer.order = Order.TRANSFORM_FIRST
    dense = normal(NODES, FEATURES)
    x = SparseFeatures.from_tensor(dense) if sparse else dense
    draws, graph = [Draw(1, 1, sample) for sample in range(3)], TOWN.graph()
    wanted = [one_pass(layer, x, graph, draw) for draw in draws]
    multiplied: list[Tensor] = []

    def count(x: Tensor | SparseFeatures, weight: Tensor) -> Tensor:
        multiplied.append(weight)
        return product(x, weight)

    product = conv.multiply
    monkeypatch.setattr(conv, "multiply", count)
    shared = SharedProduct()
    found = [one_pass(layer, x, graph, draw, shared=shared) for draw in draws]
    assert all(map(torch.equal, found, wanted))
    assert len(multiplied) == products


def test_a_layer_says_what_it_cannot_take(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, sparse = TOWN.graph(), SparseFeatures.from_tensor(torch.eye(NODES, 100))
    per_feature = SampledGCNConv(100, OUTPUTS, GraphDropConnect(FixedRate(keep=0.5), blocks=None))
    with pytest.raises(ValueError, match=r"100 blocks over sparse input .*: use first_blocks=1"):
        one_pass(per_feature, sparse, graph, Draw(1, 1))
    pairs = SampledGCNConv(100, OUTPUTS, GraphDropConnect(FixedRate(keep=0.5), pairs=True))
    dense = one_pass(pairs, sparse.to_dense(), graph, Draw(1, 1))
    torch.testing.assert_close(one_pass(pairs, sparse, graph, Draw(1, 1)), dense)
    monkeypatch.setattr(conv, "PAIR_BYTES", 4 * NODES * 100 * OUTPUTS - 1)
    with pytest.raises(ValueError, match=r"pairs=True draws for 100 x 3 pairs .* small"):
        one_pass(pairs, sparse, graph, Draw(1, 1))
    nine = SampledGCNConv(5, 3, GraphDropConnect(FixedRate(keep=0.5), blocks=9))
    with pytest.raises(
        ValueError, match=r"blocks is 9; it takes at most the number of features, 5"
    ):
        one_pass(nine, normal(NODES, 5), graph, Draw(1, 1))
    with pytest.raises(ValueError, match="'xavier' is not a valid Init"):
        SampledGCNConv(5, 3, init="xavier")
