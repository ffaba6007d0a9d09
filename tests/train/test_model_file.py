"""The file of a network gives the network back, and a file that was forged is refused."""

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from graphdrop import GCN, DropEdge, load, predict, save
from graphdrop.nn.methods import Blueprint
from graphdrop.sampling.estimators import REINFORCE
from graphdrop.train import Trainer, checkpoint, records
from graphdrop.train.progress import Silent
from graphdrop.train.records import DamagedError


@pytest.mark.parametrize("method", ["GCN", "GCN-BBGDC", "GCN-BBDE-LOCAL", "GCN-BDE-ARM"])
def test_a_loaded_network_is_the_saved_one_bit_for_bit(tmp_path, tiny, settings_of, method):
    settings, data = settings_of(method).model, tiny.data
    model = Blueprint(settings, 30, 3, tiny.graph.num_edges).build(seed=5)
    model(data.x, data.edge_index)  # a step is counted
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert again.blueprint == model.blueprint
    assert not again.training
    state = model.state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in again.state_dict().items())
    with torch.no_grad():
        expected = model.eval()(data.x, data.edge_index)
        assert torch.equal(again(data.x, data.edge_index), expected)
        # Training would go on with the same masks.
        assert again.train().next_draw() == model.train().next_draw()


def test_the_network_of_a_run_with_another_estimator_is_loaded_with_it(tiny, settings_of, tmp_path):
    config = settings_of(train={"epochs": 2, "estimator": "reinforce"})
    trainer = Trainer(config, tiny, tmp_path / "run", progress=Silent())
    trainer.fit()
    again = load(tmp_path / "run")
    assert type(again.estimator) is REINFORCE
    assert torch.equal(again.estimator.baseline, trainer.model.estimator.baseline)
    assert again.estimator.baseline > 0.0


def test_loading_says_what_is_wrong_with_the_file(tmp_path):
    with pytest.raises(ValueError, match=r"is not there: give a file that graphdrop\.save wrote"):
        load(tmp_path / "absent")
    with pytest.raises(ValueError, match=r"best\.safetensors is not there"):
        load(tmp_path)
    checkpoint.write_newest(tmp_path, {}, {"kind": "training"})
    with pytest.raises(ValueError, match="is a checkpoint of a run, not a network"):
        load(tmp_path / checkpoint.LAST)


def forged(path: Path, **changes: object) -> Path:
    """A network in whose header something was changed, with a right checksum."""
    save(GCN(4, 8, 2, 3, DropEdge(0.25)), path)
    tensors, header = records.read_tensors(path)
    for name, value in changes.items():
        section, _, key = name.partition("__")
        if key:
            header[section][key] = value
        else:
            header[section] = value
    records.write_tensors(path, tensors, header)
    return path


CARRIED = {"nodes": [1], "labels": [1], "probabilities": [[0.5, 0.5]]}
CARRIED |= {"held_out": True, "calibrated": False}
HUGE_RATE = {"class": "DropEdge", "rate": {"class": "LearnedRate", "entries": 10**13}}


@pytest.mark.parametrize(
    "changes",
    [
        {"gcn__hidden_channels": 10**12},
        {"gcn__num_layers": 10**9},
        {"gcn__in_channels": 10**6, "gcn__hidden_channels": 1000},
        {"gcn__sampler": HUGE_RATE},
        {"gcn__sampler": 7},
        {"gcn": []},
        {"kind": 5},
        {"kind": "model", "blueprint": {}},
        {"kind": "other"},
        {"defaults__samples": 10**12},
        {"defaults__masks": "soft"},
        {"defaults__calibration": {"name": "temperature"}},
        {"defaults__set_nodes": {"nodes": [1], "labels": "x"}},
        {"defaults__set_nodes": CARRIED | {"nodes": [], "labels": [], "probabilities": []}},
        {"defaults__set_nodes": CARRIED | {"labels": [2]}},
        {"defaults__set_nodes": CARRIED | {"probabilities": [[float("nan"), 0.5]]}},
        {"defaults__reject_by": "samples"},
        {"defaults__calibration": {"name": "isotonic", "curves": [[[0.1], []]], "floor": 0.1}},
        {"defaults__calibration": {"name": "cagcn", "temperature": 1, "classes": 10**9}},
        {"defaults__feature_moments": [[1.0], [float("nan")]]},
    ],
    ids=str,
)
def test_a_forged_header_is_refused_before_it_takes_memory(tmp_path, changes):
    with pytest.raises(DamagedError, match=r"the header of .*forged\.safetensors"):
        load(forged(tmp_path / "forged.safetensors", **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"defaults__class_counts": [50, 50, 50, 1]},
        {"defaults__set_nodes": CARRIED},  # of two classes
        {"defaults__calibration": {"name": "vector", "factor": [1.0, 2.0], "shift": [0.0, 0.0]}},
        {"defaults__calibration": {"name": "isotonic", "curves": [[[0.1], [0.2]]] * 2, "floor": 0}},
    ],
    ids=str,
)
def test_what_a_forged_model_carries_for_other_classes_is_refused(tmp_path, changes):
    model = load(forged(tmp_path / "forged.safetensors", **changes))
    data = Data(x=torch.randn(5, 4), edge_index=torch.tensor([[0, 1], [1, 0]]))
    with pytest.raises(ValueError, match=r"do not fit 3 classes|numbers for 2 columns"):
        predict(model, data, samples=2)
