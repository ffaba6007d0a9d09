"""Whatever the model, our own, PyG's or a user's, the same lines train it, use it and keep it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GAT

from graphdrop import ARM, GCN, GraphDropConnect, LearnedRate, Trainer, attach, load, predict, save
from graphdrop.nn import SampledGCNConv, sampled
from graphdrop.sampling.estimators import REINFORCE
from graphdrop.train.progress import Silent

FEATURES, CLASSES = 30, 3


def connections() -> GraphDropConnect:
    return GraphDropConnect(LearnedRate(0.6), blocks=2)


class Own(nn.Module):
    """Two layers as a user writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.one = SampledGCNConv(FEATURES, 8, GraphDropConnect(LearnedRate(0.6), blocks=1))
        self.two = SampledGCNConv(8, CLASSES, connections())

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.two(self.one(x, edge_index).relu(), edge_index)
        return out


def plain_gat() -> nn.Module:
    return GAT(FEATURES, 8, 2, CLASSES, heads=2, dropout=0.5)


def attached_gat() -> nn.Module:
    model = plain_gat()
    attach(model, connections(), seed=3)
    return model


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], nn.Module | None]]] = {
    "GCN": (lambda: GCN(FEATURES, 8, 2, CLASSES, connections(), seed=3), lambda: None),
    "attached": (attached_gat, plain_gat),
    "own": (Own, Own),
}
"""How a model is made, and what `load` must be given in order to bring it back."""


@pytest.fixture(params=MODELS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def make(kind: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[kind][0]()


def bare(kind: str) -> nn.Module | None:
    torch.manual_seed(7)
    return MODELS[kind][1]()


def same_state(one: nn.Module, other: nn.Module) -> bool:
    theirs = other.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in one.state_dict().items())


def test_the_same_lines_train_use_save_and_load_it(tiny, settings_of, tmp_path, kind):
    data, train = tiny.data, tiny.split.train
    model = make(kind)
    trainer = Trainer(settings_of(), tiny, tmp_path / "run", model=model, progress=Silent())
    result = trainer.fit()
    answer = predict(model, data)
    engine = sampled(model)
    rates = engine.drop_rates()
    assert answer.samples == 3  # as the settings said
    assert len(rates) == 2
    assert list(rates.values()) == result.drop_rates
    assert engine.kl().requires_grad

    engine.estimator = ARM()
    model.train()
    engine.loss(
        lambda: cross_entropy(model(data.x, data.edge_index)[train], data.y[train])
    ).backward()
    gradients = [p.grad for name, p in model.named_parameters() if "sampler" in name]
    assert gradients
    assert all(gradient is not None and bool(gradient.any()) for gradient in gradients)

    wanted = predict(model, data)
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors", model=bare(kind))
    assert type(sampled(again).estimator) is ARM
    assert same_state(again, model)
    assert torch.equal(predict(again, data).probabilities, wanted.probabilities)
    selected = load(tmp_path / "run", model=bare(kind))
    assert torch.equal(predict(selected, data).probabilities, answer.probabilities)


class Interrupting(Silent):
    def update(self, line: Any, selection: Any) -> None:
        if line["epoch"] == 3:
            raise KeyboardInterrupt


def test_a_run_that_was_interrupted_ends_with_the_same_bits(tiny, settings_of, tmp_path, kind):
    changes = {"checkpoint_seconds": 0.0, "estimator": "reinforce", "average": 0.9, "passes": 2}
    config = settings_of(train=changes, objective={"agree": 0.5})

    def trainer(model: nn.Module, folder: Path, **options: Any) -> Trainer:
        return Trainer(config, tiny, folder, model=model, **{"progress": Silent(), **options})

    whole, parted, again = make(kind), make(kind), make(kind)
    trainer(whole, tmp_path / "whole").fit()
    with pytest.raises(KeyboardInterrupt):
        trainer(parted, tmp_path / "parted", progress=Interrupting()).fit()
    for parameter in again.parameters():
        nn.init.zeros_(parameter)
    trainer(again, tmp_path / "parted", resume=True).fit()
    assert same_state(again, whole)
    assert type(sampled(again).estimator) is REINFORCE
    answer = predict(load(tmp_path / "parted", model=bare(kind)), tiny.data)
    assert torch.equal(answer.probabilities, predict(whole, tiny.data).probabilities)


def test_a_model_that_load_cannot_build_or_that_is_another_is_said(tiny, tmp_path):
    save(make("own"), tmp_path / "own.safetensors")
    with pytest.raises(ValueError, match=r"only you can build: .*give load\(path, model=\.\.\.\)"):
        load(tmp_path / "own.safetensors")
    with pytest.raises(ValueError, match="the state is not that of this GAT"):
        load(tmp_path / "own.safetensors", model=make("attached"))
    with pytest.raises(ValueError, match="has no layer that samples its connections"):
        save(nn.Linear(2, 2), tmp_path / "linear.safetensors")


def test_a_model_may_have_more_outputs_than_there_are_classes(tiny, settings_of) -> None:
    """Simple models beside the run answer with as many classes as the labels have."""
    model = GAT(FEATURES, 8, 2, CLASSES + 2)
    attach(model, connections(), seed=3)
    config = settings_of(
        train={"epochs": 2, "baselines": True}, predict={"calibration": "temperature"}
    )
    Trainer(config, tiny, model=model, progress=Silent()).fit()
    answer = predict(model, tiny.data, samples=2)
    assert answer.probabilities.shape[1] == CLASSES + 2
    assert len(answer.origin.class_counts) == CLASSES
