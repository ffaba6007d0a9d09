"""A run without a class never sees it, and is judged by how well it tells its nodes apart."""

import pytest
import torch

from experiments.left_out_class import (
    LeftOut,
    detection,
    without_class,
)
from experiments.recipe import read_recipe
from experiments.single_run import run_config
from graphdrop.data import load_dataset
from graphdrop.inference import predict
from graphdrop.metrics import ood_aupr, ood_auroc
from graphdrop.train import Trainer
from graphdrop.train.progress import Silent


@pytest.fixture(scope="module")
def synthetic():
    return load_dataset("synthetic")


def leaving(config, left_out: int = 1, members: int = 1) -> LeftOut:
    return LeftOut.model_validate(dict(config) | {"left_out": left_out, "members": members})


def test_no_node_of_the_class_is_trained_on_selected_on_or_scored(synthetic):
    known, outside = without_class(synthetic, 1)
    of_class = synthetic.data.y == 1
    for part in (known.split.train, known.split.val, known.split.test):
        assert not (part & of_class).any()
        assert (known.data.y[part] >= 0).all()
    assert torch.equal(outside, synthetic.split.test & of_class)
    assert torch.equal(known.split.test | outside, synthetic.split.test)
    assert known.num_classes == synthetic.num_classes - 1
    assert int(known.data.y.max()) == known.num_classes - 1


def test_areas_are_those_of_the_networks_own_prediction(tiny_config, synthetic):
    config = leaving(tiny_config(predict={"samples": 3}))
    record = run_config(config)
    known, outside = without_class(synthetic, 1)
    trainer = Trainer(config, known, progress=Silent())
    trainer.fit()
    tested = synthetic.split.test
    prediction = predict(trainer.model, trainer.data, 3, config.seed, temperature=0.67, rows=tested)
    flags = outside[tested]
    expected = {
        "max_probability": 1 - prediction.probabilities.max(1).values,
        "entropy": prediction.entropy,
        "mutual_information": prediction.epistemic,
    }
    assert record["detection"] == {
        name: {
            "auroc": pytest.approx(float(ood_auroc(uncertainty, flags)), rel=1e-4),
            "aupr": pytest.approx(float(ood_aupr(uncertainty, flags)), rel=1e-4),
        }
        for name, uncertainty in expected.items()
    }
    labels = trainer.data.y[tested]
    right = (prediction.vote == labels)[~flags].double().mean()
    assert record["test"]["accuracy"] == pytest.approx(float(right), rel=1e-4)
    assert record["unknown"] == int(flags.sum())
    assert record["config"]["left_out"] == 1


def test_an_ensemble_averages_members_that_differ_in_the_seed_alone(tiny_config, synthetic):
    tiny = tiny_config(
        model={"method": "GCN-DO", "layers": 2, "hidden": 4}, train={"learning_rate": 0.1}
    )
    config = leaving(tiny, members=3)
    members = config.member_configs()
    assert len({member.seed for member in members}) == 3
    assert {member.model_copy(update={"seed": 0}) for member in members} == {
        config.model_copy(update={"members": 1})
    }
    known, outside = without_class(synthetic, 1)
    trainers = [Trainer(member, known, progress=Silent()) for member in members]
    for trainer in trainers:
        trainer.fit()
    assert "mutual_information" not in detection(trainers[:1], members[0], outside)["detection"]
    together = detection(trainers, config, outside)
    passes = [
        trainer.model.eval()(trainer.run.inputs.x, trainer.run.inputs.edge_index)
        for trainer in trainers
    ]
    probabilities = torch.stack([one.detach().double().softmax(1) for one in passes])
    mean = probabilities.mean(0)
    entropy = -(mean * mean.log()).sum(1)
    information = entropy + (probabilities * probabilities.log()).sum(2).mean(0)
    tested = known.split.test | outside
    for name, score in (("entropy", entropy), ("mutual_information", information)):
        area = float(ood_auroc(score[tested], outside[tested]))
        assert together["detection"][name]["auroc"] == pytest.approx(area, abs=1e-3)


def test_every_class_is_left_out_once_per_seed():
    for cell in read_recipe("ood-paper").cells(runs=2):
        classes = {"cora": 7, "citeseer": 6, "cora_ml": 7, "pubmed": 3}[cell.dataset]
        runs = [(config.seed, config.left_out) for config in cell.configs]
        assert runs == [(seed, left_out) for seed in (0, 1) for left_out in range(classes)]
        assert {config.members for config in cell.configs} == {5 if "ensemble" in cell.row else 1}
