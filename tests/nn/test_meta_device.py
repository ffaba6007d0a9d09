"""A training step leaves no tensor behind on the CPU: it runs on the meta device."""

import pytest
import torch
from torch.fx.experimental import _config

from graphdrop import ARM, GCN, DropEdge, DropOut, Graph, GraphDropConnect, LearnedRate
from graphdrop.estimators import Estimator
from graphdrop.samplers import Sampler

GRAPH = Graph.from_edge_index(torch.randint(0, 20, (2, 60)), 20)
SAMPLERS: dict[str, Sampler] = {
    "connections": GraphDropConnect(blocks=2),
    "connections before": GraphDropConnect(blocks=2, before_normalization=True),
    "edges": DropEdge(LearnedRate(0.5), symmetric=False),  # pairs are looked up on the CPU
    "fixed edges": DropEdge(0.3),
    "features": DropOut(0.5),
}


@pytest.mark.parametrize("estimator", [None, ARM()], ids=["default", "ARM"])
@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_a_training_step_runs_on_the_meta_device(
    sampler: Sampler, estimator: Estimator | None
) -> None:
    model = GCN(6, 8, 2, 3, sampler, dropout=0.2, estimator=estimator, seed=1).to("meta")
    x, graph = torch.rand(20, 6, device="meta"), GRAPH.to("meta")
    # a count of edges depends on their values, which the meta device has none of
    with _config.patch(meta_nonzero_assume_all_nonzero=True):
        loss = model.loss(lambda: model(x, graph).square().mean()) + model.kl()
        loss.backward()  # type: ignore[no-untyped-call]
    assert loss.device.type == "meta"
    assert all(p.grad is not None and p.grad.is_meta for p in model.parameters())
    assert model.stream.tolist() == [1, 1]  # which a step reads as numbers
