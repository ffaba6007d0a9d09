"""DropOut, DropEdge and node sampling are Graph DropConnect with shared draws, as in the paper.

Every mask is written out here from the generator's bits, and every layer as the paper writes it,
in dense float64 matrices: `N(A)(Z * H)W`, `N(A * Z)HW` or `(N(A) * Z)HW`, `N(A) diag(z) H W`.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from contracts.dense_layers import hard_draw
from contracts.edge_lists import EdgeList
from contracts.masked_sums import normal
from contracts.single_layers import one_pass
from graphdrop.graph.masks import SOURCE_ONLY
from graphdrop.nn import SampledGCNConv
from graphdrop.sampling.rates import FixedRate
from graphdrop.sampling.samplers import Draw, DropEdge, DropNode, DropOut, GraphDropConnect, Sampler

NODES, FEATURES, OUTPUTS = 5, 5, 3
VILLAGE = EdgeList(
    NODES,
    [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (0, 2), (2, 0), (3, 0)],
    [1.0, 1.0, 2.0, 0.5, 3.0, 1.5, 1.5, 0.25],
)
KEEP = 0.6
DRAW = Draw(seed=11, step=5)
KEY = DRAW.key(0)

norms = pytest.mark.parametrize("norm", ["row", "sym", "paper"])
orders = pytest.mark.parametrize("before", [False, True], ids=["after", "before"])

Formula = Callable[[Tensor, Tensor], Tensor]
"""Features and weights to the layer's output."""


def normalized(norm: str, A: Tensor) -> Tensor:
    """`N(A)` for an adjacency matrix without self-loops."""
    identity = torch.eye(NODES, dtype=torch.float64)
    if norm == "row":
        return (A + identity) / (A + identity).sum(1, keepdim=True)
    if norm == "sym":
        D = torch.diag((A + identity).sum(1) ** -0.5)
        return D @ (A + identity) @ D
    degree = A.sum(1)
    D = torch.diag(torch.where(degree > 0.0, degree, torch.inf) ** -0.5)
    return identity + D @ A @ D


def masked(norm: str, Z: Tensor, before: bool) -> Tensor:
    """`N(A * Z)` or `N(A) * Z`."""
    A = VILLAGE.dense()
    return normalized(norm, A * Z) if before else normalized(norm, A) * Z


def gdc_red(norm: str, Z: list[Tensor], before: bool = False) -> Formula:
    """The constrained form: a matrix of masks for every input feature."""

    def formula(H: Tensor, W: Tensor) -> Tensor:
        terms = [masked(norm, Z[i], before) @ H[:, [i]] @ W[[i], :] for i in range(FEATURES)]
        return torch.stack(terms).sum(0)

    return formula


def edge_draws(draw: int = 0, symmetric: bool = False) -> Tensor:
    """`Z[v, u]` for all pairs of nodes."""
    Z = torch.zeros(NODES, NODES, dtype=torch.float64)
    for v in range(NODES):
        for u in range(NODES):
            ends = (max(v, u), min(v, u)) if symmetric else (v, u)
            Z[v, u] = hard_draw(KEY, KEEP, *ends, draw=draw)
    return Z


def node_draws(features: int) -> Tensor:
    """`Z[u, i]`."""
    rows = [
        [hard_draw(KEY, KEEP, SOURCE_ONLY, u, draw=i) for i in range(features)]
        for u in range(NODES)
    ]
    return torch.tensor(rows, dtype=torch.float64)


def assert_layer_is(sampler: Sampler, norm: str, *formulas: Formula) -> None:
    """A layer's values and gradients are those of every formula."""
    layer = SampledGCNConv(FEATURES, OUTPUTS, sampler, bias=False)
    x, gradient = normal(NODES, FEATURES, seed=1).requires_grad_(), normal(NODES, OUTPUTS, seed=2)
    out = one_pass(layer, x, VILLAGE.graph(norm), DRAW)
    found = (out, *torch.autograd.grad(out, (x, layer.weight), gradient))
    kept_all = normalized(norm, VILLAGE.dense()) @ x.double() @ layer.weight.double()
    assert not torch.allclose(out.double(), kept_all, atol=1e-3)
    for formula in formulas:
        H = x.detach().double().requires_grad_()
        W = layer.weight.detach().double().requires_grad_()
        written = formula(H, W)
        wanted = (written, *torch.autograd.grad(written, (H, W), gradient.double()))
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("norm", "rescale"), [("row", True), ("sym", False), ("sym", True), ("paper", False)]
)
def test_dropout_drops_entries_of_the_features(norm: str, rescale: bool) -> None:
    Z, J = node_draws(FEATURES), torch.ones(NODES, NODES, dtype=torch.float64)
    scale = 1.0 / KEEP if rescale else 1.0
    connections = gdc_red(norm, [J @ Z[:, i].diag() for i in range(FEATURES)])
    assert_layer_is(
        DropOut(FixedRate(keep=KEEP), rescale=rescale),
        norm,
        lambda H, W: normalized(norm, VILLAGE.dense()) @ (Z * H) @ W * scale,
        lambda H, W: connections(H, W) * scale,
    )


@norms
@orders
def test_dropedge_drops_entries_of_the_matrix(norm: str, before: bool) -> None:
    Z = edge_draws(symmetric=True)
    assert torch.equal(Z, Z.T)
    assert_layer_is(
        DropEdge(FixedRate(keep=KEEP), before_normalization=before),
        norm,
        lambda H, W: masked(norm, Z, before) @ H @ W,
        gdc_red(norm, [Z] * FEATURES, before),
    )


@pytest.mark.parametrize(
    ("norm", "rescale"), [("row", True), ("sym", False), ("sym", True), ("paper", False)]
)
def test_node_sampling_drops_columns_of_the_matrix(norm: str, rescale: bool) -> None:
    z, J = node_draws(1)[:, 0], torch.ones(NODES, NODES, dtype=torch.float64)
    scale = 1.0 / KEEP if rescale else 1.0
    connections = gdc_red(norm, [J @ z.diag()] * FEATURES)
    assert_layer_is(
        DropNode(FixedRate(keep=KEEP), rescale=rescale),
        norm,
        lambda H, W: normalized(norm, VILLAGE.dense()) @ z.diag() @ H @ W * scale,
        lambda H, W: connections(H, W) * scale,
    )


@pytest.mark.parametrize(
    ("norm", "before", "blocks"),
    [
        ("row", False, 2),
        ("sym", False, None),
        ("sym", True, 2),
        ("paper", True, 2),
        ("row", True, None),
    ],
)
def test_graph_dropconnect_has_a_matrix_for_every_block(
    norm: str, before: bool, blocks: int | None
) -> None:
    block = [0, 0, 0, 1, 1] if blocks == 2 else list(range(FEATURES))
    assert_layer_is(
        GraphDropConnect(FixedRate(keep=KEEP), blocks=blocks, before_normalization=before),
        norm,
        gdc_red(norm, [edge_draws(block[i]) for i in range(FEATURES)], before),
    )


@pytest.mark.parametrize(
    ("norm", "before"), [("row", True), ("sym", False), ("sym", True), ("paper", False)]
)
def test_the_general_form_has_a_matrix_for_every_pair_of_features(norm: str, before: bool) -> None:
    def gdc(H: Tensor, W: Tensor) -> Tensor:
        columns = []
        for j in range(OUTPUTS):
            column = torch.zeros(NODES, 1, dtype=torch.float64)
            for i in range(FEATURES):
                Z_ij = edge_draws(i * OUTPUTS + j)
                column = column + masked(norm, Z_ij, before) @ H[:, [i]] * W[i, j]
            columns.append(column)
        return torch.cat(columns, 1)

    assert_layer_is(
        GraphDropConnect(FixedRate(keep=KEEP), pairs=True, before_normalization=before), norm, gdc
    )
