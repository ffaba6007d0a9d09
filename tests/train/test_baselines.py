"""Baselines are what scikit-learn and dense matrices give, and a note says so if they win."""

from dataclasses import replace

import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from torch_geometric.data import Data

from graphdrop import Config, load, predict
from graphdrop.data import Dataset, load_dataset
from graphdrop.data.splits import Split
from graphdrop.graph import Graph
from graphdrop.train import Trainer, baselines, linear_solver, loop
from graphdrop.train.progress import Silent


def random_graph(nodes: int = 300, features: int = 4, seed: int = 0) -> Data:
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(nodes, (2, 4 * nodes), generator=generator)
    edges = edges[:, edges[0] != edges[1]]
    edges = torch.unique(torch.cat([edges, edges.flip(0)], 1), dim=1)
    return Data(x=torch.randn(nodes, features, generator=generator), edge_index=edges)


def dense_means(data: Data) -> torch.Tensor:
    """Features beside their means over a node and its neighbours, one and two hops far."""
    matrix = torch.eye(len(data.x), dtype=torch.float64)
    matrix[data.edge_index[1], data.edge_index[0]] = 1.0
    matrix /= matrix.sum(1, keepdim=True)
    x = data.x.double()
    return torch.cat([x, matrix @ x, matrix @ matrix @ x], 1)


def dataset_of(data: Data, seed: int = 1) -> Dataset:
    order = torch.randperm(len(data.x), generator=torch.Generator().manual_seed(seed))
    parts = torch.zeros(3, len(order), dtype=torch.bool)
    third = len(order) // 3
    for number in range(3):
        parts[number, order[number * third : (number + 1) * third]] = True
    data.train_mask, data.val_mask, data.test_mask = parts
    if data.y.is_floating_point():
        return data
    return replace(load_dataset(data), split=Split(*parts, "given"))


def neighbour_task(classes: int = 2) -> Data:
    """Classes that the mean of the neighbours decides, about which own features say little."""
    data = random_graph()
    score = dense_means(data)[:, 4] * 6.0
    data.y = (score > 0).long() + (score > 2.0).long() * (classes - 2)
    return data


@pytest.mark.parametrize("sparse", [False, True])
def test_a_logistic_regression_is_scikit_learns(sparse, monkeypatch):
    data = neighbour_task(classes=3)
    if sparse:
        monkeypatch.setattr(linear_solver, "SparseFeatures", torch.Tensor)
        monkeypatch.setattr(linear_solver, "measure_hop_deviations", deviations_of_columns)
    dataset = dataset_of(data)
    given = {"data": {"dataset": "data"}, "train": {"epochs": 1}, "objective": {"l2": 1e-3}}
    config = baselines.baseline_config(given, dataset, 2)
    trainer = Trainer(config, dataset, progress=Silent())
    loop.train(trainer.run, Silent())
    wide, train = dense_means(data), data.train_mask
    wide = wide / scales(wide, train, not sparse)
    other = LogisticRegression(C=1.0 / (2.0 * 1e-3 * int(train.sum())), tol=1e-8, max_iter=5000)
    other.fit(wide[train].numpy(), data.y[train].numpy())
    wanted = torch.from_numpy(other.predict_proba(wide.numpy()))
    found = predict(trainer.model, dataset.data, calibrator=None).probabilities.double()
    torch.testing.assert_close(found, wanted, atol=2e-3, rtol=0)


def scales(wide: torch.Tensor, train: torch.Tensor, by_column: bool) -> torch.Tensor:
    deviation = wide[train].std(0, correction=0)
    if by_column:
        return deviation
    return deviation.square().view(3, -1).mean(1).sqrt().repeat_interleave(4)


def deviations_of_columns(x: torch.Tensor, graph: Graph, *_: object) -> torch.Tensor:
    data = dataset_of(neighbour_task(classes=3))
    return scales(dense_means(data.data), data.split.train, False).view(3, -1)[:, 0].float()


def test_a_ridge_regression_is_scikit_learns():
    data = random_graph()
    noise = torch.randn(300, generator=torch.Generator().manual_seed(7))
    data.y = 1000.0 + 50.0 * (dense_means(data)[:, 4] * 5.0 + 0.3 * noise.double()).float()
    data = dataset_of(data)
    strength, train = {"objective": {"l2": 1e-2}}, data.train_mask
    config = Config(recipe="baseline", data={"features": "stored"}, train={"epochs": 1}, **strength)
    trainer = Trainer(config, data, progress=Silent())
    loop.train(trainer.run, Silent())
    assert trainer.config.model.orders == 2
    wide = dense_means(data)
    wide = wide / scales(wide, train, True)
    # the NLL of a Gaussian, of whose targets the variance is 1, against a sum of squares
    variance = float(trainer.model.convs[0].bias.detach()[1].exp())
    target = data.y[train].double() - data.y[train].double().mean()
    spread = float(target.std(correction=0))
    other = Ridge(alpha=2.0 * int(train.sum()) * 1e-2 * variance)
    other.fit(wide[train].numpy(), (target / spread).numpy())
    wanted = torch.from_numpy(other.predict(wide.numpy())) * spread + data.y[train].double().mean()
    found = predict(trainer.model, data, output="gaussian", calibrator=None).mean.flatten().double()
    torch.testing.assert_close(found, wanted, atol=0.05, rtol=0)


def settings(**train: object) -> Config:
    """A network that sees no neighbours."""
    return Config(
        recipe="paper",
        data={"dataset": "data"},
        model={"method": "GCN", "architecture": "propagation", "orders": 0, "layers": 1},
        train={"epochs": 2, "evaluate_every": 1, "samples": 1, **train},
        predict={"calibration": "temperature"},
    )


def test_a_note_says_so_when_a_baseline_wins_and_only_then():
    dataset = dataset_of(neighbour_task())
    poor = Trainer(settings(), dataset, progress=Silent()).fit()
    (note,) = [one for one in poor.warnings if "--baseline" in one]
    best = poor.baselines["logistic regression, neighbours"]["test"]["auroc"]
    assert f"AUROC {best:.3g} against {poor.test.auroc:.3g}" in note
    assert set(poor.baselines) == {
        "majority class",
        "label propagation",
        "logistic regression",
        "logistic regression, neighbours",
    }
    good = Trainer(Config(recipe="baseline", train={"baselines": True}), dataset, progress=Silent())
    assert not [one for one in good.fit().warnings if "is better here" in one]
    assert Trainer(settings(baselines=False), dataset, progress=Silent()).fit().baselines == {}


def test_numbers_worse_than_their_mean_are_said_to_be():
    data = neighbour_task()
    data.y = 300 + 90 * torch.randn(len(data.x), generator=torch.Generator().manual_seed(1))
    rest = {"recipe": "paper", "predict": {"samples": 2}, "train": {"epochs": 40}}

    def keep_noise(parameters):
        """Leave large random weights as they are."""
        parameters = list(parameters)
        for weight in parameters:
            weight.data *= 3.0
        return torch.optim.SGD(parameters, lr=0.0)

    poor = Trainer(Config(**rest), data, optimizer=keep_noise, progress=Silent()).fit()
    found = poor.baselines["always the mean"]["test"]
    assert found["rmse"] == pytest.approx(poor.always_the_mean["rmse"], rel=1e-5)
    assert found["rmse"] < poor.test.rmse
    assert any("always answering the mean" in note for note in poor.warnings)
    tuned = Trainer(Config(recipe="baseline", train={"baselines": True}), data, progress=Silent())
    assert not tuned.fit().warnings


def test_what_a_baseline_says_does_not_depend_on_test_labels():
    dataset = dataset_of(neighbour_task())
    other = dataset.data.clone()
    other.y = torch.where(dataset.split.test, 1 - other.y, other.y)
    changed = replace(dataset, data=other)
    found = [Trainer(settings(), one, progress=Silent()).fit() for one in (dataset, changed)]
    for name, scores in found[0].baselines.items():
        assert scores["validation"] == found[1].baselines[name]["validation"]
    both = [Trainer(Config(recipe="baseline"), d, progress=Silent()) for d in (dataset, changed)]
    assert both[0].config == both[1].config


def test_a_saved_baseline_predicts_what_its_result_says(tmp_path):
    dataset = dataset_of(neighbour_task())
    result = Trainer(Config(recipe="baseline"), dataset, tmp_path / "run", progress=Silent()).fit()
    answer = predict(load(tmp_path / "run"), dataset.data, rows=dataset.split.test)
    right = (answer.predicted == dataset.data.y[dataset.split.test]).double().mean()
    assert result.test.accuracy == pytest.approx(float(right))
    assert answer.calibrated == "samples"
    assert result.test.auroc > 0.9
