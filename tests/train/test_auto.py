"""The recipe auto: what it chooses for a graph, and that it reads nothing it must not read."""

import dataclasses

import pytest
import torch
from torch_geometric.data import Data

from graphdrop import Config, Trainer
from graphdrop.config import Method, settle
from graphdrop.config.auto import choose, ways
from graphdrop.config.toml import read
from graphdrop.data import load_dataset
from graphdrop.data.synthetic import synthetic_graph
from graphdrop.data.traits import feature_kind, traits_of
from graphdrop.train import auto
from graphdrop.train.progress import Silent

SHORT = {"train": {"epochs": 4, "evaluate_every": 2, "samples": 2}, "predict": {"samples": 3}}


class Noting(Silent):
    def __init__(self, notes: list[str]) -> None:
        super().__init__()
        self.note = notes.append


def graph(seed: int = 0) -> Data:
    return synthetic_graph(150, 3, num_features=30, words_per_node=6.0, seed=seed).data


def own(data: Data, **sections: dict) -> Config:
    return Config(data={"split": "random-fractions"}, **SHORT | sections)


def chosen(config: Config, data: Data) -> Config:
    dataset = load_dataset(data, split="random-fractions")
    return auto.choose_settings(config, dataset, Silent())


def test_labels_of_test_nodes_are_not_read():
    dataset = load_dataset(graph(), split="random-fractions")
    before = traits_of(dataset)
    dataset.data.y[dataset.split.test] = 0
    assert traits_of(dataset) == before


@pytest.mark.parametrize(
    ("x", "kind"),
    [
        (torch.eye(6), "words"),
        (torch.eye(6).to_sparse(), "words"),
        (torch.randn(50, 4), "dense"),
        (torch.randn(50, 4) * torch.tensor([1.0, 1e3, 1.0, 1.0]), "unscaled"),
        (torch.rand(50, 3) + 1e4, "dense"),
        (torch.ones(5, 2), "dense"),
    ],
)
def test_kinds_of_features_are_told_apart(x, kind):
    assert feature_kind(x, torch.ones(len(x), dtype=torch.bool)) == kind


def test_what_is_given_wins_and_the_method_stays():
    config = own(graph(), model={"method": "GCN-DE", "dropout": 0.25})
    result = chosen(config, graph())
    assert result.model.method is Method.GCN_DE
    assert result.model.dropout == 0.25
    assert result.train.epochs == 4
    assert auto.has_every_setting(result)
    assert auto.choose_settings(result, load_dataset(graph()), Silent()) is result


def test_every_method_gets_settings_that_build_a_network():
    dataset = load_dataset(graph(), split="random-fractions")
    traits = traits_of(dataset)
    for method in Method:
        for way in ("smooth", "plain", "skip"):
            Config(**choose(method, "gcn", traits, way), recipe="auto")
        config = own(graph(), model={"method": str(method)}, train={"epochs": 1})
        Trainer(config, graph(), progress=Silent())


def test_validation_nodes_decide_where_homophily_is_unknown(monkeypatch):
    dataset = load_dataset(graph(), split="random-fractions")
    unknown = dataclasses.replace(traits_of(dataset), homophily=None)
    assert len(ways(unknown)) == 3
    monkeypatch.setattr(auto, "traits_of", lambda _: unknown)
    monkeypatch.setattr(
        auto, "trial_nll", lambda config, *_: float(config.model.norm_layer != "layer")
    )
    said = []
    result = auto.choose_settings(own(graph()), dataset, Noting(said))
    assert result.model.norm_layer == "layer"
    assert "decided on validation" in said[-1]


def test_with_many_labels_validation_nodes_decide_where_neighbours_are_alike(monkeypatch):
    tried = []
    monkeypatch.setattr(auto, "trial_nll", lambda config, *_: (tried.append(config), 1.0)[1])
    dataset = load_dataset("synthetic", split="random-fractions")
    assert traits_of(dataset).homophilous
    one_rate = Config(model={"edges": "one-rate"})
    auto.choose_settings(one_rate, dataset, Silent())
    assert [config.train.optimizer for config in tried] == ["adam", "adam", "lbfgs"]
    auto.choose_settings(one_rate, load_dataset("synthetic"), Silent())
    assert len(tried) == 3  # with 20 labels of each class nothing was tried


def test_trials_decide_and_the_run_begins_from_its_first_epoch(tmp_path, monkeypatch):
    dataset = load_dataset(graph(), split="random-fractions")
    unknown = dataclasses.replace(traits_of(dataset), homophily=None)
    monkeypatch.setattr(auto, "traits_of", lambda _: unknown)
    config = own(graph(), train={"epochs": 30})
    trainer = Trainer(config, dataset, tmp_path / "run", progress=Silent())
    assert trainer.epoch == 0
    found = trainer.fit()
    assert [line["epoch"] for line in trainer.journal.lines] == list(range(1, found.epochs + 1))
    plain = Trainer(trainer.config, dataset, progress=Silent())  # complete: nothing is tried
    assert plain.fit().test == found.test
    for name, tensor in plain.model.state_dict().items():
        assert torch.equal(trainer.model.state_dict()[name], tensor), name


def test_a_run_writes_what_was_chosen_and_goes_on_without_choosing_again(tmp_path, monkeypatch):
    data = graph()
    config = own(data)
    first = Trainer(config, data, tmp_path / "run", progress=Silent())
    first.fit()
    assert settle(read(tmp_path / "run" / "config.toml")) == first.config
    monkeypatch.setattr(auto, "traits_of", None)
    again = Trainer(config, data, tmp_path / "run", resume=True, progress=Silent())
    assert again.config == first.config


def test_balanced_class_weights_count_every_class_alike():
    data = graph()
    data.y[:120] = 0
    config = own(data, objective={"class_weights": "balanced"})
    trainer = Trainer(config, data, progress=Silent())
    labels = trainer.run.labels
    weight = trainer.run.task.weight[labels]
    sums = torch.zeros(3).index_add_(0, labels, weight)
    assert torch.allclose(sums, sums.mean().expand(3))
