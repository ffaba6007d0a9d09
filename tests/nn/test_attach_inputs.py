"""Edges in every form that PyG takes, and compiled models: masks act on all of them."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import EdgeIndex
from torch_geometric.nn import GAT, conv
from torch_geometric.utils import coalesce

from contracts.attach_contract import two_blocks
from contracts.dense_layers import TOWN
from contracts.masked_sums import normal
from graphdrop import attach
from graphdrop.sampling.rates import FixedRate
from graphdrop.sampling.samplers import Draw, DropEdge

IN, OUT, NODES = 4, 4, TOWN.num_nodes
X = normal(NODES, IN, seed=1)
# a sparse matrix has no parallel edges, and PyG adds a second self-loop to the one it has
PROPER = TOWN.edge_index[0] != TOWN.edge_index[1]
EDGES, WEIGHTS = coalesce(
    TOWN.edge_index[:, PROPER], TOWN.edge_weight[PROPER], NODES, sort_by_row=False
)
HARD = Draw(3, 4)

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse (CSR|invariant):UserWarning"),  # once per process
    # torch's and PyG's, of what the compiler finds in them
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

LAYERS = {
    "GCN": lambda: conv.GCNConv(IN, OUT),
    "SAGE": lambda: conv.SAGEConv(IN, OUT),
    "GIN": lambda: conv.GINConv(nn.Linear(IN, OUT)),
    "APPNP": lambda: conv.APPNP(K=2, alpha=0.1),
    "SAGE max": lambda: conv.SAGEConv(IN, OUT, aggr="max"),
    "GAT": lambda: conv.GATConv(IN, OUT, add_self_loops=False),
    "GraphConv": lambda: conv.GraphConv(IN, OUT),
}
WEIGHTED = ("GCN", "APPNP", "GraphConv")


def matrix(layout: torch.layout, values: Tensor) -> Tensor:
    """Destinations in rows."""
    whole = torch.sparse_coo_tensor(EDGES.flip(0), values, (NODES, NODES)).coalesce()
    return whole if layout is torch.sparse_coo else whole.to_sparse(layout=layout)


def sampled(handle: Any, *arguments: Any, draw: Draw | None = HARD) -> Tensor:
    with handle.drawing(draw):
        out: Tensor = handle.model(*arguments)
    return out


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        *((name, torch.sparse_csr) for name in LAYERS),
        *((n, torch.sparse_coo) for n in ("GCN", "GAT")),
    ],
)
def test_a_sparse_matrix_gives_what_its_edges_give(name, layout):
    weighted = name in WEIGHTED
    values = WEIGHTS if weighted else torch.ones(EDGES.shape[1])
    handle = attach(LAYERS[name](), two_blocks())
    from_edges = sampled(handle, X, EDGES, *([values] if weighted else []))
    found = sampled(handle, X, matrix(layout, values))
    torch.testing.assert_close(found, from_edges, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(found, sampled(handle, X, matrix(layout, values), draw=None))


@pytest.mark.parametrize("name", ["SAGE", "GIN"])
def test_the_values_of_a_sparse_matrix_count_as_on_the_fused_path_of_pyg(name):
    layer = LAYERS[name]()
    plain = layer(X, matrix(torch.sparse_csr, WEIGHTS))
    handle = attach(layer, DropEdge(FixedRate(keep=1.0)))
    torch.testing.assert_close(sampled(handle, X, matrix(torch.sparse_csr, WEIGHTS)), plain)


def test_values_that_only_the_fused_path_reads_are_an_error_where_messages_are_masked():
    handle = attach(LAYERS["SAGE max"](), two_blocks())
    with pytest.raises(ValueError, match="reads on PyG's fused path only"):
        handle.model(X, matrix(torch.sparse_csr, WEIGHTS))


@pytest.mark.parametrize(
    ("name", "order"),
    [
        *((name, ("row", "col", None)[at % 3]) for at, name in enumerate(LAYERS)),
        *(("GAT", order) for order in ("row", "col")),
    ],
)
def test_an_edge_index_that_knows_its_order_is_masked_all_the_same(name, order):
    handle = attach(LAYERS[name](), two_blocks())
    wanted = sampled(handle, X, EDGES)
    edges = EdgeIndex(EDGES, sparse_size=(NODES, NODES))
    if order is not None:
        edges = edges.sort_by(order).values
    torch.testing.assert_close(sampled(handle, X, edges), wanted, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(sampled(handle, X, edges, draw=None), wanted)


def test_messages_that_flow_backwards_are_masked_by_their_own_destination():
    torch.manual_seed(0)
    forwards = attach(conv.GCNConv(IN, OUT), two_blocks())
    backwards = attach(conv.GCNConv(IN, OUT, flow="target_to_source"), two_blocks())
    backwards.model.load_state_dict(forwards.model.state_dict())
    found = sampled(backwards, X, EDGES.flip(0))
    torch.testing.assert_close(found, sampled(forwards, X, EDGES), rtol=1e-4, atol=1e-5)


def test_weights_that_want_a_gradient_get_one():
    weights = WEIGHTS.clone().requires_grad_()
    handle = attach(conv.GCNConv(IN, OUT), two_blocks())
    found = sampled(handle, X, EDGES, weights)
    torch.testing.assert_close(found, sampled(handle, X, EDGES, WEIGHTS), rtol=1e-4, atol=1e-5)
    found.sum().backward()
    assert weights.grad is not None
    assert bool((weights.grad != 0.0).any())


def test_several_features_on_the_same_edges_share_their_masks():
    handle = attach(conv.GCNConv(IN, OUT), two_blocks())
    several = torch.stack([X, 2.0 * X])
    one, two = sampled(handle, several, EDGES)
    torch.testing.assert_close(one, sampled(handle, X, EDGES), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(two, 2.0 * one - handle.model.bias, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "when"),
    [*(("GCN", when) for when in ("before", "after", "on the compiled model")), ("GAT", "after")],
)
def test_a_compiled_model_is_masked_whenever_it_was_compiled(kind, when):
    torch.compiler.reset()
    model = LAYERS[kind]() if kind == "GCN" else GAT(IN, 8, 2, OUT, heads=2)
    compiled = torch.compile(model, backend="aot_eager")
    if when == "after":
        compiled(X, EDGES)
    handle = attach(compiled if when == "on the compiled model" else model, two_blocks())
    relaxed = Draw(3, 4, temperature=0.67)
    wanted = sampled(handle, X, EDGES, draw=relaxed)
    with handle.drawing(relaxed):
        found = compiled(X, EDGES)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    found.sum().backward()
    assert all(bool(parameter.grad != 0.0) for parameter in handle.parameters())
    assert not torch.equal(compiled(X, EDGES), compiled(X, EDGES))
    handle.remove()
    torch.testing.assert_close(compiled(X, EDGES), model(X, EDGES))


def test_a_model_compiled_as_one_graph_is_refused_rather_than_left_unmasked():
    torch.compiler.reset()
    handle = attach(LAYERS["GCN"](), two_blocks())
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(handle.model, backend="aot_eager", fullgraph=True)(X, EDGES)


def test_a_layer_that_keeps_its_first_messages_is_refused():
    with pytest.raises(ValueError, match=r"SGConv with cached=True.*make it with cached=False"):
        attach(conv.SGConv(4, 2, cached=True), DropEdge(0.5))
    attach(conv.GCNConv(4, 2, cached=True), DropEdge(0.5))  # which keeps the normalization alone
