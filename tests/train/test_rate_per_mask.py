"""A rate drawn for every mask, in whole runs and in attached layers."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN

from contracts.masked_sums import normal, power_law_edges
from graphdrop import ARM, GraphDropConnect, attach, load, predict, save
from graphdrop.sampling.rates import BetaBernoulliRate, LearnedRate, Rate
from graphdrop.sampling.samplers import DropEdge

NODES = 60
DATA = Data(x=normal(NODES, 5), edge_index=power_law_edges(NODES, 500))


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
