"""Layer-wise prediction is the full-batch prediction, in a fraction of its memory."""

from __future__ import annotations

import threading
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data

from graphdrop import (
    GCN,
    BetaBernoulliRate,
    DropEdge,
    DropNode,
    DropOut,
    GraphDropConnect,
    RandomWalk,
    attach,
    predict,
)
from graphdrop.graph import Graph
from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.nn.layerwise import storage
from graphdrop.nn.stack import ConvStack
from graphdrop.sampling.edges.features import EDGE_FEATURES
from graphdrop.sampling.rates import AmortizedRate, LearnedRate

NODES, FEATURES = 60, 12


def some_graph(weights: bool = False) -> Data:
    """A directed graph with parallel edges and self-loops."""
    made = torch.Generator().manual_seed(0)
    edge_index = torch.randint(0, NODES, (2, 300), generator=made)
    edge_index = torch.cat([edge_index, edge_index[:, :20]], 1)
    data = Data(x=torch.randn(NODES, FEATURES, generator=made), edge_index=edge_index)
    if weights:
        data.edge_weight = torch.rand(320, generator=made) + 0.1
    return data


def assert_same(model: nn.Module, data: Data, batch_size: int | None = 17, **options: Any) -> None:
    """The prediction of both ways, its parts and its logits."""
    whole = predict(model, data, 3, seed=3, **options)
    walked = predict(model, data, 3, seed=3, layerwise=True, batch_size=batch_size, **options)
    for name in ("probabilities", "expected_entropy", "deviation"):
        torch.testing.assert_close(getattr(walked, name), getattr(whole, name), atol=1e-5, rtol=0)
    torch.testing.assert_close(walked.origin.logits, whole.origin.logits, atol=1e-5, rtol=1e-5)


SAMPLERS = {
    "none": lambda: None,
    "dropout": lambda: DropOut(0.4),
    "dropout, not rescaled": lambda: DropOut(LearnedRate(), rescale=False),
    "dropedge": lambda: DropEdge(0.3),
    "dropedge before": lambda: DropEdge(0.3, before_normalization=True),
    "dropnode": lambda: DropNode(0.3, rescale=True),
    "gdc": lambda: GraphDropConnect(blocks=2),
    "gdc per feature": lambda: GraphDropConnect(0.4, blocks=None, first_blocks=3),
    "gdc before, symmetric": lambda: GraphDropConnect(
        0.4, blocks=4, symmetric=True, self_loops=False, before_normalization=True
    ),
    "gdc relaxed": lambda: GraphDropConnect(BetaBernoulliRate(), first_blocks=None),
    "gdc pairs": lambda: GraphDropConnect(0.3, pairs=True),
    "amortized before": lambda: GraphDropConnect(
        AmortizedRate(EDGE_FEATURES), blocks=2, before_normalization=True
    ),
    "rate per edge before": lambda: GraphDropConnect(
        BetaBernoulliRate(entries=Graph.from_data(some_graph()).num_edges),
        before_normalization=True,
    ),
    "amortized": lambda: GraphDropConnect(AmortizedRate(EDGE_FEATURES)),
    "random walk": lambda: RandomWalk(0.3),
}


@pytest.mark.parametrize(  # each sampler with one normalization, in turn
    ("sampler", "normalization"),
    list(zip(SAMPLERS.values(), cycle(["sym", "row", "paper"]))),
    ids=list(SAMPLERS),
)
def test_layerwise_is_the_full_batch(sampler: Any, normalization: str) -> None:
    model = GCN(FEATURES, 16, 3, 4, sampler(), normalization=normalization, seed=1)
    assert_same(model, some_graph(weights=normalization == "sym"))
    assert_same(model, some_graph(), None, masks="relaxed")


@pytest.mark.parametrize(
    "options",
    [
        {"residual": True},
        {"residual": "initial", "dropout": 0.3},
        {"residual": "linear", "norm": "batch"},
        {"norm": "layer", "jk": "last"},
        {"jk": "cat", "dropout": 0.3},
        {"jk": "max", "residual": True},
    ],
    ids=str,
)
def test_layerwise_has_residuals_and_norms(options: dict[str, Any]) -> None:
    width = FEATURES if options.get("residual") is True else 16  # its input has that width
    model = GCN(FEATURES, width, 3, 4, GraphDropConnect(blocks=2), **options, seed=1)
    assert_same(model, some_graph(), rows=torch.tensor([40, 3, 5]))
    sparse = some_graph()
    sparse.x = sparse.x * (sparse.x > 1.5)
    assert_same(model, sparse)


@pytest.mark.parametrize(
    ("kind", "options", "name"),
    [
        (pyg.GCN, {}, "gdc"),
        (pyg.GCN, {}, "dropnode"),
        (pyg.GCN, {}, "gdc before, symmetric"),
        (pyg.GCN, {"improved": True}, "dropedge before"),
        (pyg.GraphSAGE, {"jk": "lstm"}, "dropnode"),
        (pyg.GIN, {"act_first": True}, "gdc"),
        (pyg.GAT, {"heads": 4}, "gdc"),
        (pyg.GAT, {"heads": 4}, "dropnode"),
        (pyg.GCN, {"jk": "cat", "norm": "batch_norm", "improved": True}, "gdc"),
        (pyg.GAT, {"v2": True, "norm": "layer_norm", "norm_kwargs": {"mode": "node"}}, "gdc"),
    ],
    ids=str,
)
def test_layerwise_is_the_full_batch_of_an_attached_model(
    kind: Any, options: dict[str, Any], name: str
) -> None:
    torch.manual_seed(0)
    model = kind(FEATURES, 16, 3, 4, dropout=0.5, **options)
    attach(model, SAMPLERS[name](), seed=1)
    assert_same(model, some_graph(weights=kind is pyg.GCN))
    assert_same(model, some_graph(), rows=torch.tensor([40, 3, 5]), masks="expected")


@pytest.mark.parametrize(
    ("kind", "before"), [(pyg.GCN, True), (pyg.GCN, False), (pyg.GraphSAGE, False)]
)
def test_an_attached_rate_per_edge_is_found_in_layerwise_passes(kind: Any, before: bool) -> None:
    data = some_graph()
    data.edge_index = data.edge_index.unique(dim=1)
    rate = BetaBernoulliRate(entries=Graph.from_data(data).num_edges)
    model = kind(FEATURES, 16, 3, 4)
    attach(model, DropEdge(rate, symmetric=False, before_normalization=before), seed=1)
    assert_same(model, data)


@pytest.mark.parametrize("architecture", ["gat", "gatv2", "sage", "gin", "gcnii", "appnp"])
def test_layerwise_is_the_full_batch_of_every_architecture(architecture: str) -> None:
    torch.manual_seed(0)
    for options in ({}, {"residual": True, "norm": "batch", "jk": "cat"}):
        model = ConvStack(architecture, FEATURES, 16, 3, 4, **options)  # type: ignore[arg-type]
        attach(model, GraphDropConnect(0.3), seed=1)
        assert_same(model, some_graph())


@pytest.mark.parametrize("features", ["row", "standardize"])
def test_layerwise_preprocesses_rows_as_the_model_does(features: Any) -> None:
    data = some_graph()
    model = GCN(FEATURES, 16, 2, 4, GraphDropConnect(0.3, first_blocks=None), seed=1)
    model.defaults = PredictionDefaults(features=features).fit_moments(data.x, torch.arange(30))
    assert_same(model, data)


def test_samples_that_do_not_fit_side_by_side_are_computed_in_groups(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(storage, "FOLDER_BYTES", (2 * 2 + 1) * 4 * NODES * 16)
    model = GCN(FEATURES, 16, 3, 4, GraphDropConnect(0.3), seed=1)
    assert_same(model, some_graph())
    whole = predict(model, some_graph(), 5, seed=3)
    mapped = predict(model, some_graph(), 5, seed=3, layerwise=True, folder=tmp_path)
    torch.testing.assert_close(mapped.probabilities, whole.probabilities, atol=1e-5, rtol=0)
    assert not list(tmp_path.iterdir())


def _anonymous() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) << 10


def test_memory_mapped_features_are_not_copied(tmp_path: Path) -> None:
    nodes, width, highest, done = 1 << 15, 2048, [_anonymous()], threading.Event()
    with (tmp_path / "x").open("wb") as file:
        file.truncate(4 * nodes * width)
    x = np.memmap(tmp_path / "x", np.float32, "c", shape=(nodes, width))
    edge_index = torch.randint(0, nodes, (2, nodes))
    model = GCN(width, 4, 2, 3, GraphDropConnect(0.3), seed=1)

    def watch() -> None:
        while not done.wait(0.002):
            highest.append(_anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        predict(model, Data(x=torch.from_numpy(x), edge_index=edge_index), 3, layerwise=True)
    finally:
        done.set()
        watcher.join()
    assert max(highest) - highest[0] < x.nbytes // 2


def test_a_module_of_ones_own_with_layers_that_read_their_edges_is_walked() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = pyg.GATConv(FEATURES, 8), pyg.GCNConv(8, 4)
            self.norm = pyg.GraphNorm(8)

        def forward(self, x: Any, edge_index: Any, edge_weight: Any) -> Any:
            return self.second(self.norm(self.first(x, edge_index)), edge_index, edge_weight)

    model = Own()
    attach(model, GraphDropConnect(0.3, blocks=2), seed=1)
    assert_same(model, some_graph(weights=True))
    assert_same(model, some_graph(weights=True), rows=torch.tensor([40, 3, 5]))


def test_layerwise_says_what_it_does_not_take() -> None:
    data, gdc = some_graph(), GraphDropConnect(0.3)
    for model, options, message in (
        (pyg.SGConv(FEATURES, 4), {}, "may read more than the edges into a node"),
        (pyg.GCN(FEATURES, 8, 2, 4), {"sample_dropout": True}, "sample_dropout=True"),
    ):
        attach(model, gdc, **options)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=message):
            predict(model, data, 2, layerwise=True)
    own = GCN(FEATURES, 8, 2, 4, gdc)
    for wrong, message in (
        ({"batch_size": 3}, "add layerwise=True"),
        ({"layerwise": True, "batch_size": 0}, "batch_size is 0"),
        ({"layerwise": True, "folder": "/no/such"}, "not a folder"),
    ):
        with pytest.raises(ValueError, match=message):
            predict(own, data, 2, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [GCN, pyg.GCN, pyg.GAT], ids=["own", "gcn", "gat"])
def test_rows_of_few_nodes_read_their_neighborhood_alone(kind: Any) -> None:
    """On a ring three layers read three nodes to each side: features beyond may be anything."""
    node = torch.arange(200)
    ring = torch.stack([node, (node + 1) % 200])
    edge_index = torch.cat([ring, ring.flip(0)], 1)
    x = torch.randn(200, FEATURES, generator=torch.Generator().manual_seed(0))
    rows = torch.tensor([70, 10, 72])
    near = (node[:, None] - rows).abs().amin(1) <= 3
    for sampler in (DropOut(0.3), GraphDropConnect(0.3, blocks=2)):
        if kind is GCN:
            model = GCN(FEATURES, 16, 3, 4, sampler, residual="initial", jk="cat", seed=1)
        else:
            model = kind(FEATURES, 16, 3, 4, jk="cat")
            attach(model, sampler, seed=1)
        unread = torch.where(near[:, None], x, torch.nan)
        whole = predict(model, Data(x=x, edge_index=edge_index), 5, seed=3, rows=rows)
        part = Data(x=unread, edge_index=edge_index)
        walked = predict(model, part, 5, seed=3, rows=rows, layerwise=True)
        torch.testing.assert_close(walked.probabilities, whole.probabilities, atol=1e-5, rtol=0)
