"""Of a run's checkpoints the newest whole one counts; a network's file gives the network back."""

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from graphdrop import GCN, DropEdge, load, predict, save
from graphdrop.nn.methods import Blueprint
from graphdrop.train import checkpoint, records
from graphdrop.train.records import DamagedError
from graphdrop.train.state import State


def keep(folder: Path, epoch: int) -> None:
    checkpoint.write_newest(
        folder, {"model/weight": torch.full((3,), float(epoch))}, {"epoch": epoch}
    )


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


@pytest.fixture
def said() -> list[str]:
    return []


def test_the_newest_and_the_one_before_it_are_kept(tmp_path, said):
    for epoch in (1, 2, 3):
        keep(tmp_path, epoch)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        checkpoint.LAST,
        checkpoint.PREVIOUS,
    ]
    tensors, header = checkpoint.read_newest(tmp_path, said.append)
    assert header["epoch"] == 3
    assert tensors["model/weight"].tolist() == [3.0] * 3
    assert said == []


def test_an_empty_folder_has_none(tmp_path, said):
    assert checkpoint.read_newest(tmp_path, said.append) is None


@pytest.mark.parametrize("harm", [damage, cut])
def test_where_the_newest_is_damaged_the_one_before_it_is_used_and_said(tmp_path, said, harm):
    keep(tmp_path, 1)
    keep(tmp_path, 2)
    harm(tmp_path / checkpoint.LAST)
    _, header = checkpoint.read_newest(tmp_path, said.append)
    assert header["epoch"] == 1
    assert len(said) == 1
    assert "last.safetensors" in said[0]
    assert "going on from previous.safetensors, after epoch 1" in said[0]


def test_a_damaged_checkpoint_never_takes_the_place_of_a_good_one(tmp_path, said):
    keep(tmp_path, 1)
    keep(tmp_path, 2)
    damage(tmp_path / checkpoint.LAST)
    checkpoint.read_newest(tmp_path, said.append)
    keep(tmp_path, 2)
    damage(tmp_path / checkpoint.LAST)
    assert checkpoint.read_newest(tmp_path, said.append)[1]["epoch"] == 1


def test_between_the_two_renames_the_one_before_it_counts(tmp_path, said):
    keep(tmp_path, 1)
    keep(tmp_path, 2)
    (tmp_path / checkpoint.LAST).unlink()
    assert checkpoint.read_newest(tmp_path, said.append)[1]["epoch"] == 1


def test_where_none_is_whole_it_is_an_error_that_says_what_to_do(tmp_path, said):
    keep(tmp_path, 1)
    keep(tmp_path, 2)
    damage(tmp_path / checkpoint.LAST)
    cut(tmp_path / checkpoint.PREVIOUS)
    with pytest.raises(DamagedError, match="no checkpoint is left, so start anew") as raised:
        checkpoint.read_newest(tmp_path, said.append)
    assert "checksum is wrong" in str(raised.value)
    assert "cut short" in str(raised.value)


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


def test_loading_says_what_is_wrong_with_the_file(tmp_path, tiny, settings_of):
    with pytest.raises(ValueError, match=r"is not there: give a file that graphdrop\.save wrote"):
        load(tmp_path / "absent")
    with pytest.raises(ValueError, match=r"best\.safetensors is not there"):
        load(tmp_path)
    checkpoint.write_newest(tmp_path, {}, {"kind": "training"})
    with pytest.raises(ValueError, match="is a checkpoint of a run, not a network"):
        load(tmp_path / checkpoint.LAST)


def test_the_state_of_an_optimizer_survives_the_file(tmp_path):
    weight = torch.nn.Parameter(torch.ones(3))
    one = torch.optim.Adam([weight], 0.1)
    model = torch.nn.ParameterList([weight])
    for step in range(3):
        weight.grad = torch.full((3,), float(step))
        one.step()
    state = State(model, one, None)
    records.write_tensors(tmp_path / "moments", state.tensors()["optimizer"], {})
    moments, _ = records.read_tensors(tmp_path / "moments")
    other_weight = torch.nn.Parameter(torch.zeros(3))
    other = torch.optim.Adam([other_weight], 0.1)
    again = State(torch.nn.ParameterList([other_weight]), other, None)
    again.load(state.tensors() | {"optimizer": moments}, state.counts())
    for optimizer, parameter in ((one, weight), (other, other_weight)):
        parameter.grad = torch.ones(3)
        optimizer.step()
    assert torch.equal(weight, other_weight)


CARRIED = {"nodes": [1], "labels": [1], "probabilities": [[0.5, 0.5]]}
CARRIED |= {"held_out": True, "calibrated": False}


def forged(path: Path, **changes: object) -> Path:
    """A network in whose header something was changed, with a right checksum."""
    save(GCN(4, 8, 2, 3, DropEdge(0.25)), path)
    tensors, header = records.read_tensors(path)
    for name, value in changes.items():
        inner = header[name.partition("__")[0]]
        inner[name.partition("__")[2]] = value
    records.write_tensors(path, tensors, header)
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"gcn__hidden_channels": 10**12},
        {"gcn__num_layers": 10**9},
        {"gcn__in_channels": 10**6, "gcn__hidden_channels": 1000},
        {
            "gcn__sampler": {
                "class": "DropEdge",
                "rate": {"class": "LearnedRate", "entries": 10**13},
            }
        },
        {"gcn__sampler": 7},
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
