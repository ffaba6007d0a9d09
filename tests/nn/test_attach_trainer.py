"""`Trainer` runs a model of one's own that has a sampler attached."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import APPNP, GCN, GCNConv, Linear

from graphdrop import (
    ARM,
    DisARM,
    GraphDropConnect,
    LearnedRate,
    Trainer,
    attach,
    load_dataset,
)
from graphdrop.config import Config, ObjectiveSettings, settle
from graphdrop.data.synthetic import synthetic_graph
from graphdrop.sampling.estimators import Estimator
from graphdrop.sampling.rates import BetaBernoulliRate
from graphdrop.sampling.samplers import Draw, DropEdge
from graphdrop.train.objective import Objective
from graphdrop.train.progress import Silent

FEATURES, CLASSES = 30, 3
TINY = load_dataset(
    synthetic_graph(80, CLASSES, num_features=FEATURES, words_per_node=6.0).data,
    split="random-fractions",
)


def settings(**changes: dict[str, Any]) -> Config:
    small: dict[str, Any] = {
        "data": {"dataset": "data"},
        "model": {"hidden": 8, "norm": "sym", "init": "glorot"},
        "train": {"epochs": 6, "evaluate_every": 2, "samples": 2},
        "predict": {"samples": 3},
    }
    both = {key: small.get(key, {}) | changes.get(key, {}) for key in {**small, **changes}}
    return settle({"recipe": "paper"} | both)


class ByHand(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GCNConv(FEATURES, 8), GCNConv(8, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.second(self.first(x, edge_index).relu(), edge_index)
        return out


def stock(estimator: Estimator | None = None) -> nn.Module:
    torch.manual_seed(0)
    model = GCN(FEATURES, 8, 2, CLASSES, dropout=0.5, norm="batch_norm")
    attach(model, GraphDropConnect(LearnedRate(0.6), blocks=2), estimator, seed=1)
    return model


def trainer(model: nn.Module, folder: Path | None = None, **options: Any) -> Trainer:
    changes = options.pop("changes", {})
    progress = options.pop("progress", Silent())
    return Trainer(settings(**changes), TINY, folder, model=model, progress=progress, **options)


@pytest.mark.parametrize("method", ["GCN-BBGDC", "GCN-BBGDC-ARM"])
def test_a_gcn_built_by_hand_trains_as_our_own_does(method):
    config = settings(model={"method": method, "hidden": 8, "norm": "sym", "init": "glorot"})
    own = Trainer(config, TINY, progress=Silent())
    by_hand = ByHand()
    estimator = ARM() if method.endswith("ARM") else None
    sampler = GraphDropConnect(BetaBernoulliRate(), blocks=2)
    handle = attach(by_hand, sampler, estimator, seed=config.seed)
    for layer, masked in zip(own.model.layers, handle.layers.values(), strict=True):
        with torch.no_grad():
            masked.layer.lin.weight.copy_(layer.weight.T)
        masked.sampler.load_state_dict(layer.sampler.state_dict())
    theirs = Trainer(config, TINY, model=by_hand, progress=Silent())
    one, other = own.fit(), theirs.fit()
    assert other.selected_epoch == one.selected_epoch
    assert other.test.accuracy == one.test.accuracy
    assert other.drop_rates == pytest.approx(one.drop_rates, abs=1e-4)
    torch.testing.assert_close(
        by_hand.second.lin.weight.T, own.model.layers[1].weight, rtol=1e-3, atol=1e-4
    )


class Interrupting(Silent):
    def update(self, line: Any, selection: Any) -> None:
        if line["epoch"] == 3:
            raise KeyboardInterrupt


@pytest.mark.parametrize("estimator", [None, ARM()], ids=["concrete", "ARM"])
def test_a_run_that_was_interrupted_ends_with_the_same_bits(tmp_path, estimator):
    often = {"train": {"checkpoint_seconds": 0.0}}
    whole, parted = stock(estimator), stock(copy.deepcopy(estimator))
    trainer(whole, tmp_path / "whole", changes=often).fit()
    with pytest.raises(KeyboardInterrupt):
        trainer(parted, tmp_path / "parted", changes=often, progress=Interrupting()).fit()
    torch.manual_seed(99)  # the model's own DropOut does not depend on it
    again = stock(estimator)
    for parameter in again.parameters():
        nn.init.zeros_(parameter)
    trainer(again, tmp_path / "parted", changes=often, resume=True).fit()
    for name, value in whole.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name


def test_an_estimator_in_the_settings_takes_the_place_of_the_models_own():
    assert type(trainer(stock(ARM())).run.engine.estimator) is ARM
    model = stock()
    found = trainer(model, changes={"train": {"estimator": "disarm"}})
    assert type(found.run.engine.estimator) is DisARM
    assert found.run.engine.next_draw().temperature is None
    found.fit()


def test_weights_outside_the_layers_count_whole_and_those_inside_by_what_was_drawn():
    class Personalised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin, self.conv, self.hops = Linear(4, 4), GCNConv(4, 2), APPNP(K=2, alpha=0.1)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            out: Tensor = self.hops(self.conv(self.lin(x), edge_index), edge_index)
            return out

    model = Personalised()
    handle = attach(model, DropEdge(BetaBernoulliRate()))
    x, edges = torch.rand(3, 4), torch.tensor([[0, 1], [1, 2]])
    data = Data(x=x, edge_index=edges)

    def compute(draws: Sequence[Draw]) -> Tensor:
        (out,) = handle.samples(data, draws, training=True)
        return out.square().mean()

    _, tape = handle.estimate(compute)
    assert [drawn.layer for drawn in tape] == [0, 1, 1]
    keep = tape[0].keep_logit.sigmoid()
    kept = Objective(ObjectiveSettings(l2=1.0, l2_factor="keep"), handle, 1).l2(tape)
    outside = model.lin.weight.square().sum() + model.lin.bias.square().sum()
    inside = model.conv.lin.weight.square().sum() + model.conv.bias.square().sum()
    torch.testing.assert_close(kept, outside + keep * inside)


def test_the_mean_of_the_weights_is_refused_beside_batch_normalization():
    with pytest.raises(ValueError, match="the model has batch normalization"):
        trainer(stock(), changes={"train": {"average": 0.9}})
    model = ByHand()
    attach(model, GraphDropConnect(LearnedRate(0.6), blocks=2), seed=1)
    assert trainer(model, changes={"train": {"average": 0.9}}).state.average is not None
