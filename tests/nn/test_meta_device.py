"""Training steps and predictions of every method and estimator run on the meta device."""

from typing import Any

import pytest
import torch
from torch.fx.experimental import _config
from torch_geometric.data import Data

from graphdrop import Graph
from graphdrop.config import Config, Method
from graphdrop.nn.methods import METHODS, Blueprint, named_estimator
from graphdrop.nn.sampled import sampled
from graphdrop.sampling.samplers import Draw

GRAPH = Graph.from_edge_index(torch.randint(0, 20, (2, 60)), 20)
# the draws of pairs and the features of edges are looked up on the CPU
ON_THE_CPU = {Method.GCN_BDE_ARM, Method.GCN_BBDE_ARM, Method.GCN_BBGDC_AMORTISED}
NAMED: dict[str, dict[str, Any]] = {
    **{str(one): {"method": one} for one in METHODS if one not in ON_THE_CPU},
    "DisARM": {"method": Method.GCN_BBGDC, "estimator": "disarm"},
    "REINFORCE": {"method": Method.GCN_BBGDC, "estimator": "reinforce"},
    "BDE-ARM": {"method": Method.GCN_BDE_ARM, "symmetric": False},
}


def check_step(model: Any) -> None:
    """A step and two samples of a prediction stay on the device."""
    model.to("meta")
    x, graph = torch.rand(20, 6, device="meta"), GRAPH.to("meta")
    engine = sampled(model)
    # a count of edges depends on their values, which the meta device has none of
    with _config.patch(meta_nonzero_assume_all_nonzero=True):
        loss = engine.loss(lambda: model(x, graph).square().mean()) + engine.kl()
        loss.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            draws = [Draw(0, 0, sample=sample, temperature=0.67) for sample in range(2)]
            outputs = list(engine.samples(Data(x=x, edge_index=graph), [*draws, None]))
    assert loss.device.type == "meta"
    assert all(p.grad is not None and p.grad.is_meta for p in model.parameters())
    assert all(one.is_meta and one.shape == (20, 3) for one in outputs)


@pytest.mark.parametrize("name", NAMED)
def test_every_method_and_estimator_runs_on_the_meta_device(name: str) -> None:
    settings = dict(NAMED[name])
    estimator = settings.pop("estimator", None)
    chosen = Config(model={"hidden": 8, "layers": 2, **settings}).model
    model = Blueprint(chosen, 6, 3, GRAPH.num_edges).build(1)
    if estimator is not None:
        model.estimator = named_estimator(estimator, 0.67)
    check_step(model)
