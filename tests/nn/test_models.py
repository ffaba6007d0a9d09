"""A GCN is PyG's where it keeps everything, and what its formula says where it does not."""

from typing import cast

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from contracts.dense_layers import TOWN, connections, hard_draw, masked_matrices
from contracts.edge_lists import EdgeList
from contracts.masked_sums import normal
from graphdrop.graph import Graph
from graphdrop.graph.masks import SOURCE_ONLY
from graphdrop.nn import GCN, SampledGCNConv, conv
from graphdrop.sampling.rates import BetaBernoulliRate, FixedRate, LearnedRate
from graphdrop.sampling.samplers import (
    Draw,
    DropEdge,
    DropNode,
    DropOut,
    GraphDropConnect,
    RandomWalk,
    Sampler,
)

NODES, FEATURES, HIDDEN, OUTPUTS = TOWN.num_nodes, 5, 4, 3
X, EDGES = normal(NODES, FEATURES), TOWN.edge_index
ROADS = EdgeList(NODES, [(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3)], [1.0] * 6)


def layers_of(model: GCN) -> list[SampledGCNConv]:
    layers = list(model.layers)
    assert all(isinstance(layer, SampledGCNConv) for layer in layers)
    return cast("list[SampledGCNConv]", layers)


def bias_of(layer: SampledGCNConv) -> Tensor:
    assert layer.bias is not None
    return layer.bias


def with_biases(model: GCN) -> GCN:
    """The same model with biases other than 0, so that one sees them."""
    for layer in layers_of(model):
        torch.nn.init.normal_(bias_of(layer))
    return model


def pyg_convolutions(model: GCN) -> list[GCNConv]:
    """PyG's layers with the same weights and biases."""
    convolutions = []
    for layer in layers_of(model):
        convolution = GCNConv(layer.in_channels, layer.out_channels)
        with torch.no_grad():
            convolution.lin.weight.copy_(layer.weight.T)
            convolution.bias.copy_(bias_of(layer)[0])
        convolutions.append(convolution)
    return convolutions


@pytest.mark.parametrize(
    ("edges", "weighted", "layers"),
    [(TOWN, False, 1), (TOWN, True, 2), (ROADS, False, 4), (ROADS, True, 1), (TOWN, True, 4)],
)
def test_a_gcn_that_keeps_everything_is_pygs(edges: EdgeList, weighted: bool, layers: int) -> None:
    model = with_biases(GCN(FEATURES, HIDDEN, layers, OUTPUTS))
    weight = edges.edge_weight if weighted else None
    x, gradient = normal(NODES, FEATURES, seed=1).requires_grad_(), normal(NODES, OUTPUTS, seed=2)
    out = model(x, edges.edge_index, weight)
    x_gradient, *gradients = torch.autograd.grad(out, [x, *model.parameters()], gradient)

    hidden, convolutions = x, pyg_convolutions(model)
    for number, convolution in enumerate(convolutions):
        hidden = convolution(hidden if number == 0 else hidden.relu(), edges.edge_index, weight)
    parameters = [p for c in convolutions for p in (c.lin.weight, c.bias)]
    pyg_x_gradient, *pyg_gradients = torch.autograd.grad(hidden, [x, *parameters], gradient)

    torch.testing.assert_close(out, hidden, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(x_gradient, pyg_x_gradient, rtol=1e-5, atol=1e-6)
    for one, other in zip(gradients, pyg_gradients, strict=True):
        assert one.numel() == other.numel()
        torch.testing.assert_close(one, other.t().reshape(one.shape), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("norm", ["row", "sym", "paper"])
def test_the_normalization_is_the_models_whatever_the_graph_comes_as(norm: str) -> None:
    model, x = GCN(FEATURES, HIDDEN, 1, OUTPUTS, normalization=norm), normal(NODES, FEATURES)
    wanted = masked_matrices(TOWN, norm) @ x.double() @ layers_of(model)[0].weight.double()
    forms: list[tuple[Tensor | Graph, Tensor | None]] = [
        (TOWN.edge_index, TOWN.edge_weight),
        (TOWN.graph("row"), None),
        (TOWN.graph("sym"), None),
    ]
    for edges, weight in forms:
        torch.testing.assert_close(model(x, edges, weight).double(), wanted, rtol=1e-5, atol=1e-6)


def test_a_residual_adds_the_input_of_hidden_layers_of_one_width() -> None:
    model = with_biases(GCN(FEATURES, FEATURES, 3, OUTPUTS, residual=True))
    x, matrix = normal(NODES, FEATURES), masked_matrices(TOWN, "sym")
    hidden = x.double()
    for number, layer in enumerate(layers_of(model)):
        out = matrix @ hidden @ layer.weight.double() + bias_of(layer).double()
        hidden = out if number == 2 else out.relu() + hidden
    out = model(x, TOWN.edge_index, TOWN.edge_weight)
    torch.testing.assert_close(out.double(), hidden, rtol=1e-5, atol=1e-5)
    narrow = GCN(FEATURES, HIDDEN, 2, OUTPUTS, residual=True)
    plain = GCN(FEATURES, HIDDEN, 2, OUTPUTS)
    plain.load_state_dict(narrow.state_dict())
    assert torch.equal(narrow(x, TOWN.edge_index), plain(x, TOWN.edge_index))


def test_an_initial_residual_is_the_mean_with_the_first_layers_output() -> None:
    model = with_biases(GCN(FEATURES, HIDDEN, 4, OUTPUTS, residual="initial"))
    x, matrix = normal(NODES, FEATURES), masked_matrices(TOWN, "sym")
    hidden, first = x.double(), None
    for number, layer in enumerate(layers_of(model)):
        hidden = matrix @ hidden @ layer.weight.double() + bias_of(layer).double()
        if number < 3:
            hidden = hidden.relu() if first is None else (hidden.relu() + first) / 2
            first = hidden if first is None else first
    out = model(x, TOWN.edge_index, TOWN.edge_weight)
    torch.testing.assert_close(out.double(), hidden, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("norm", ["row", "sym"])
def test_dropout_and_dropedge_together_are_both_of_their_formulas(norm: str, before: bool) -> None:
    sampler = DropEdge(FixedRate(keep=0.7), before_normalization=before)
    model = with_biases(GCN(FEATURES, HIDDEN, 2, OUTPUTS, sampler, dropout=0.5, normalization=norm))
    x, draw = normal(NODES, FEATURES), Draw(1, 2)
    hidden = x.double()
    for number, layer in enumerate(layers_of(model)):
        edge_key, entry_key = draw.key(number), draw.key(number + conv.DROPOUT_STREAM)
        Z = torch.tensor(
            [
                hard_draw(edge_key, 0.7, max(v, u), min(v, u), rank)
                for v, u, rank, _ in connections(TOWN)
            ]
        )
        D = torch.tensor(
            [
                [hard_draw(entry_key, 0.5, SOURCE_ONLY, u, draw=i) for i in range(hidden.shape[1])]
                for u in range(NODES)
            ]
        )
        matrix = masked_matrices(TOWN, norm, Z, before=before)
        out = matrix @ (D * hidden / 0.5) @ layer.weight.double() + bias_of(layer).double()
        hidden = out.relu() if number == 0 else out
    out = model(x, TOWN.edge_index, TOWN.edge_weight, draw=draw)
    torch.testing.assert_close(out.double(), hidden, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("sampler", "dropout", "features"),
    [
        (DropEdge(FixedRate(keep=0.5)), 0.5, [5, 5, 3, 3]),
        (DropOut(FixedRate(keep=0.5)), 0.0, [5, 3]),
        (DropNode(FixedRate(keep=0.5), rescale=True), 0.0, [5, 3]),
        (GraphDropConnect(FixedRate(keep=0.5), pairs=True), 0.0, [15, 9]),
    ],
)
def test_the_tape_of_a_pass_has_every_mask_and_its_width(
    sampler: Sampler, dropout: float, features: list[int]
) -> None:
    model = GCN(FEATURES, OUTPUTS, 2, OUTPUTS, sampler, dropout=dropout)
    draw = Draw(1, 1, tape=[])
    x = normal(NODES, FEATURES)
    model(x, TOWN.edge_index, draw=draw)
    assert draw.tape is not None
    assert [drawn.features for drawn in draw.tape] == features
    assert len({tuple(drawn.mask.key.tolist()) for drawn in draw.tape}) == len(features)


@pytest.mark.parametrize("rows", [None, torch.tensor([1])], ids=["all", "rows"])
@pytest.mark.parametrize("edges", [TOWN.edge_index, TOWN.graph()], ids=["edge_index", "graph"])
def test_a_model_can_train_after_a_prediction_in_inference_mode(
    edges: Tensor | Graph, rows: Tensor | None
) -> None:
    sampler = DropEdge(LearnedRate(0.5), before_normalization=True)
    model, x = GCN(FEATURES, OUTPUTS, 2, OUTPUTS, sampler), torch.eye(NODES, FEATURES)
    with torch.inference_mode():
        model(x, edges, rows=rows)
        assert model(x.clone(), edges, rows=rows).is_inference()
    model(x, edges, rows=rows).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("temperature", [None, 0.67])
@pytest.mark.parametrize(
    "sampler",
    [
        GraphDropConnect(BetaBernoulliRate(), blocks=2),
        DropNode(FixedRate(keep=0.6), rescale=True),
        DropOut(BetaBernoulliRate()),
        RandomWalk(FixedRate(keep=0.6)),
    ],
    ids=lambda sampler: type(sampler).__name__,
)
@torch.no_grad()
def test_samples_equal_single_passes(sampler: Sampler, temperature: float | None) -> None:
    model = GCN(FEATURES, FEATURES, 3, OUTPUTS, sampler, residual=True, seed=1).eval()
    data = Data(x=X, edge_index=EDGES)
    draws = [Draw(3, 4, sample, temperature=temperature) for sample in range(5)]
    alone = [next(model.samples(data, [draw])) for draw in draws]
    together = list(model.samples(data, draws))
    assert all(map(torch.equal, together, alone))
    for out, draw in zip(together, draws, strict=True):
        torch.testing.assert_close(out, model(X, EDGES, draw=draw))


@torch.no_grad()
def test_a_hook_keeps_the_output_of_a_layer_before_its_relu() -> None:
    model = GCN(FEATURES, 8, 2, OUTPUTS, DropEdge(FixedRate(keep=0.6)), seed=1).eval()
    seen: list[Tensor] = []
    model.layers[0].register_forward_hook(lambda _m, _i, out: seen.append(out))
    list(model.samples(Data(x=X, edge_index=EDGES), [Draw(0, 0, sample) for sample in range(3)]))
    assert len(seen) == 3
    assert all((out < 0.0).any() for out in seen)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"num_layers": 0}, ValueError, "num_layers is 0; it takes"),
        ({"dropout": 1.0}, ValueError, r"dropout is 1.0; it takes a drop rate in \[0, 1\)"),
        ({"dropout": -0.1}, ValueError, r"dropout is -0.1; it takes a drop rate in \[0, 1\)"),
        ({"normalization": "left"}, ValueError, "'left': give one of row, sym, paper, none"),
        (
            {"sampler": FixedRate(keep=0.5)},
            TypeError,
            r"sampler is of type FixedRate; it takes a Sampler such as DropEdge\(",
        ),
    ],
)
def test_a_model_that_cannot_be_built_says_why(
    arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        GCN(
            **{
                "in_channels": FEATURES,
                "hidden_channels": HIDDEN,
                "num_layers": 2,
                "out_channels": OUTPUTS,
            }
            | arguments
        )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"x": X[:, :4]}, ValueError, r"x has shape \(6, 4\); it takes shape \[nodes, 5\]"),
        ({"x": X[0]}, ValueError, r"x has shape \(5,\); it takes shape \[nodes, 5\]"),
        ({"x": X.numpy()}, TypeError, "x is of type ndarray; it takes a tensor, dense or sparse"),
        (
            {"x": X.long()},
            TypeError,
            r"dtype torch.int64; .*torch.float32. Use x.to\(torch.float32\)",
        ),
        ({"x": X.double()}, TypeError, "x has dtype torch.float64; it takes the model's dtype"),
        (
            {"x": X.to_sparse().requires_grad_()},
            ValueError,
            r"x is sparse and requires a gradient, .* use x.detach\(\) or x.to_dense\(\)",
        ),
        ({"x": X[:3]}, ValueError, "num_nodes is 3, but edge_index names node 4"),
        (
            {"x": X[:3], "edge_index": TOWN.graph()},
            ValueError,
            r"x has shape .*; it takes shape \[6, features",
        ),
        ({"edge_index": EDGES.tolist()}, TypeError, "edge_index is of type list; it takes"),
        ({"edge_index": EDGES.T}, ValueError, r"edge_index has shape .*; it takes shape \[2, E\]"),
        (
            {"edge_weight": torch.ones(3)},
            ValueError,
            r"edge_weight has shape \(3,\); it takes shape \[10\]",
        ),
        (
            {"edge_index": TOWN.graph(), "edge_weight": TOWN.edge_weight},
            ValueError,
            "edge_weight is given beside a Graph, which has its own weights",
        ),
        ({"rows": [0, 1]}, TypeError, "rows is of type list; it takes a tensor"),
        ({"rows": torch.tensor([0, 6])}, ValueError, r"rows contains 6; it takes 0\.\.5"),
    ],
)
def test_a_call_that_cannot_be_computed_says_why(
    arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    model = GCN(FEATURES, HIDDEN, 2, OUTPUTS)
    with pytest.raises(error, match=message):
        model(**{"x": X, "edge_index": EDGES, **arguments})
