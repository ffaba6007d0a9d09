"""Training and prediction leave no tensor on the CPU: they run on a device that refuses to mix.

The device is a stand-in (`contracts.shadow_device`): its tensors have values, so that a step there
is compared with the step on the CPU, and reading a number from it is noticed.
"""

from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg_nn
from torch_geometric.data import Data

from contracts import shadow_device
from contracts.shadow_device import Shadow
from graphdrop import (
    ARM,
    GCN,
    DropEdge,
    DropOut,
    LearnedRate,
    RandomWalk,
    attach,
    predict,
)
from graphdrop.config import Config, Method
from graphdrop.graph import Graph
from graphdrop.nn.methods import Blueprint, named_estimator
from graphdrop.nn.sampled import sampled

NODES, FEATURES, CLASSES = 12, 6, 3
GENERATOR = torch.Generator().manual_seed(0)
X = torch.rand(NODES, FEATURES, generator=GENERATOR)
SPARSE = torch.where(torch.rand(NODES, FEATURES, generator=GENERATOR) < 0.15, X, 0.0)
EDGES = torch.randint(0, NODES, (2, 30), generator=GENERATOR)
Y = torch.randint(0, CLASSES, (NODES,), generator=GENERATOR)
GRAPH = Graph.from_edge_index(EDGES, NODES)
METHODS = (
    Method.GCN_DO,
    Method.GCN_DE,
    Method.GCN_NS,
    Method.GCN_BBGDC,
    Method.GCN_BBDE_ARM,
    Method.GCN_BBGDC_LOCAL,
    Method.GCN_BBGDC_AMORTISED,
)
"""Every sampler and every rate once; all methods run on the meta device."""
CASES: dict[str, dict[str, Any]] = {
    **{str(method): {"method": method} for method in METHODS},
    "REINFORCE": {"method": Method.GCN_BBGDC, "estimator": "reinforce"},
    "before": {"method": Method.GCN_BBGDC, "mask": "before"},
    "pairs": {"method": Method.GCN_GDC, "blocks": "pair"},
    "sparse": {"method": Method.GCN_BBGDC, "first_blocks": 2},
}


def network(estimator: str | None = None, **settings: Any) -> Any:
    """A network of two layers; equal calls give equal networks."""
    chosen = Config(model={"hidden": 8, "layers": 2, **settings}).model
    model = Blueprint(chosen, FEATURES, CLASSES, GRAPH.num_edges).build(1)
    if estimator is not None:
        model.estimator = named_estimator(estimator, 0.67)
    return model


def step(model: Any, x: Tensor, edge_index: Tensor, y: Tensor) -> list[Tensor]:
    """The loss of a training step, and the gradients of all parameters."""
    engine = sampled(model)
    model.zero_grad()
    loss = engine.loss(lambda: nn.functional.cross_entropy(model(x, edge_index), y)) + engine.kl()
    loss.backward()  # type: ignore[no-untyped-call]
    return [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


@pytest.fixture
def sparse_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device multiplies sparse features, as a GPU does."""
    monkeypatch.setattr("graphdrop.nn.inputs.SPARSE_DEVICES", ("cpu", "meta"))


@pytest.mark.usefixtures("sparse_there")
@pytest.mark.parametrize("name", CASES)
def test_a_step_and_a_prediction_are_those_of_the_cpu_and_read_no_number(name: str) -> None:
    x = SPARSE if name == "sparse" else X
    here, there = network(**CASES[name]), network(**CASES[name])
    wanted = [step(here, x, EDGES, Y) for _ in range(2)][1]
    answer = predict(here, Data(x=x, edge_index=EDGES), 3)
    waited: list[str] = []

    def seen(operation: str, _tensors: list[Tensor]) -> None:
        if operation in shadow_device.SYNCHRONIZES:
            waited.append(operation)

    with shadow_device.device(seen) as device:
        there.to(device)
        data = x.to(device), EDGES.to(device), Y.to(device)
        step(there, *data)  # which sorts edges, and may wait
        waited.clear()
        got = step(there, *data)
        assert waited == []
        predicted = predict(there, Data(x=data[0], edge_index=data[1]), 3)
    assert all(isinstance(one, Shadow) for one in got)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one.inner, other, rtol=1e-4, atol=1e-5)
    found = predicted.probabilities
    assert isinstance(found, Shadow)
    torch.testing.assert_close(found.inner, answer.probabilities)


@pytest.mark.parametrize(
    ("model", "float64"),
    [
        *((name, False) for name in ("walk", "features", "GAT", "PyG GCN")),
        *((name, True) for name in ("walk", "GAT")),
    ],
)
def test_other_samplers_and_attached_models_run_there(model: str, float64: bool) -> None:
    def build() -> Any:
        torch.manual_seed(0)
        if model == "walk":
            return GCN(FEATURES, 8, 2, CLASSES, RandomWalk(LearnedRate(0.6)), seed=1)
        if model == "features":
            return GCN(FEATURES, 8, 2, CLASSES, DropOut(LearnedRate(0.6)), norm="batch", seed=1)
        kind = pyg_nn.GAT if model == "GAT" else pyg_nn.GCN
        network = kind(FEATURES, 8, 2, CLASSES)
        attach(network, DropEdge(LearnedRate(0.6)), estimator=ARM(), seed=1)
        return network

    here, there = build(), build()
    wanted = step(here, X, EDGES, Y)
    with ExitStack() as context:
        if float64:
            device, asked = context.enter_context(shadow_device.device()), []
        else:
            device, asked = context.enter_context(shadow_device.without_float64())
        there.to(device)
        got = step(there, X.to(device), EDGES.to(device), Y.to(device))
    assert asked == []
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one.inner, other, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("sparse_there")
@pytest.mark.parametrize("name", CASES)
def test_nothing_asks_for_float64_where_there_is_none(name: str) -> None:
    """Apple's GPUs have no float64: rates and estimators then compute with it on the CPU."""
    x = SPARSE if name == "sparse" else X
    here, there = network(**CASES[name]), network(**CASES[name])
    wanted = step(here, x, EDGES, Y)
    answer = predict(here, Data(x=x, edge_index=EDGES), 3)
    with shadow_device.without_float64() as (device, asked):
        there.to(device)
        data = x.to(device), EDGES.to(device), Y.to(device)
        got = step(there, *data)
        predicted = predict(there, Data(x=data[0], edge_index=data[1]), 3)
    assert asked == []
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one.inner, other, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(predicted.probabilities, answer.probabilities)
