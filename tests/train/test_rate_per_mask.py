"""A rate drawn for every mask, in whole runs and in attached layers."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN

import graphdrop
from contracts.masked_sums import normal, power_law_edges
from graphdrop import ARM, GraphDropConnect, attach, load, predict, save
from graphdrop.sampling.rates import BetaBernoulliRate, LearnedRate, Rate
from graphdrop.sampling.samplers import DropEdge
from graphdrop.train import Trainer
from graphdrop.train.progress import Silent

NODES = 60
DATA = Data(x=normal(NODES, 5), edge_index=power_law_edges(NODES, 500))


class Interrupting(Silent):
    def update(self, line: Any, selection: Any) -> None:
        if line["epoch"] == 2:
            raise KeyboardInterrupt


@pytest.mark.parametrize("estimator", ["concrete", "arm", "disarm", "reinforce"])
def test_a_run_that_was_interrupted_ends_with_the_same_bits(
    tiny: Any, settings_of: Any, tmp_path: Path, estimator: str
) -> None:
    config = settings_of(
        model={"method": "GCN-BBGDC", "rate_draw": "mask"},
        train={"checkpoint_seconds": 0.0, "estimator": estimator, "epochs": 5},
    )
    whole = Trainer(config, tiny, progress=Silent())
    before = whole.model.layers[0].sampler.rate.a.item()
    whole.fit()
    with pytest.raises(KeyboardInterrupt):
        Trainer(config, tiny, tmp_path / "run", progress=Interrupting()).fit()
    again = Trainer(config, tiny, tmp_path / "run", resume=True, progress=Silent())
    again.fit()
    state = whole.model.state_dict()
    assert all(torch.equal(v, state[name]) for name, v in again.model.state_dict().items())
    assert whole.model.layers[0].sampler.rate.a.item() != before
    loaded = load(tmp_path / "run")
    assert {layer.sampler.rate.rate_draw for layer in loaded.layers} == {"mask"}


@pytest.mark.parametrize("kind", [GCN, GAT])
def test_attached_layers_train_predict_and_come_back_from_a_file(
    kind: type[nn.Module], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = kind(5, 8, 2, 3)
    sampler = GraphDropConnect(BetaBernoulliRate(rate_draw="mask"), blocks=2)
    handle = attach(model, sampler, seed=1)
    handle.backward(lambda: model(DATA.x, DATA.edge_index).square().mean())
    assert all(bool(p.grad != 0.0) for p in handle.parameters())
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors", model=kind(5, 8, 2, 3))
    for masks in ("relaxed", "hard", "expected"):
        one, other = (predict(each, DATA, 3, masks=masks) for each in (model, again))
        assert torch.equal(one.probabilities, other.probabilities)


def test_arm_hands_a_and_b_the_gradient_of_the_logit_of_the_mean() -> None:
    drawn, learned = BetaBernoulliRate(rate_draw="mask"), LearnedRate()
    with torch.no_grad():
        learned.keep_logit.copy_(drawn.logit())

    def gradients(rate: Rate) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = GCN(5, 6, 1, 2)
        handle = attach(model, DropEdge(rate), ARM(), seed=3)
        handle.backward(lambda: model(DATA.x, DATA.edge_index).square().mean())
        return [parameter.grad for parameter in handle.parameters()]

    (by_logit,) = gradients(learned)
    assert by_logit != 0.0
    slopes = torch.autograd.grad(drawn.logit(), list(drawn.parameters()))
    for got, slope in zip(gradients(drawn), slopes, strict=True):
        torch.testing.assert_close(got, by_logit * slope)


def test_a_compiled_network_has_the_gradients_of_the_plain_one() -> None:
    def network() -> nn.Module:
        return graphdrop.GCN(
            5, 8, 2, 3, GraphDropConnect(BetaBernoulliRate(rate_draw="mask")), seed=1
        )

    model, twin = network(), network()
    twin.load_state_dict(model.state_dict())
    for one in (torch.compile(model, backend="aot_eager"), twin):
        one(DATA.x, DATA.edge_index).square().mean().backward()
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)
