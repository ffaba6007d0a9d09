"""The newest whole checkpoint of a run counts, and it holds the state of the run."""

from pathlib import Path

import pytest
import torch

from graphdrop.train import Trainer, checkpoint, records
from graphdrop.train.progress import Silent
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


def test_the_newest_and_the_one_before_it_are_kept(tmp_path):
    assert checkpoint.read_newest(tmp_path, print) is None
    for epoch in (1, 2, 3):
        keep(tmp_path, epoch)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [checkpoint.LAST, checkpoint.PREVIOUS]
    tensors, header = checkpoint.read_newest(tmp_path, print)
    assert header["epoch"] == 3
    assert tensors["model/weight"].tolist() == [3.0] * 3
    (tmp_path / checkpoint.LAST).unlink()  # as between the two renames
    assert checkpoint.read_newest(tmp_path, print)[1]["epoch"] == 2


@pytest.mark.parametrize("harm", [damage, cut])
def test_a_damaged_checkpoint_is_said_and_never_takes_the_place_of_a_good_one(tmp_path, harm):
    said: list[str] = []
    keep(tmp_path, 1)
    for _ in range(2):
        keep(tmp_path, 2)
        harm(tmp_path / checkpoint.LAST)
        assert checkpoint.read_newest(tmp_path, said.append)[1]["epoch"] == 1
    assert len(said) == 2
    assert "last.safetensors" in said[0]
    assert "going on from previous.safetensors, after epoch 1" in said[0]


def test_where_none_is_whole_it_is_an_error_that_says_what_to_do(tmp_path):
    keep(tmp_path, 1)
    keep(tmp_path, 2)
    damage(tmp_path / checkpoint.LAST)
    cut(tmp_path / checkpoint.PREVIOUS)
    with pytest.raises(DamagedError, match="no checkpoint is left, so start anew") as raised:
        checkpoint.read_newest(tmp_path, print)
    assert "checksum is wrong" in str(raised.value)
    assert "cut short" in str(raised.value)


def test_a_checkpoint_with_a_wrong_header_is_refused(tiny, settings_of, tmp_path):
    config = settings_of(train={"epochs": 2, "checkpoint_seconds": 0.0})
    Trainer(config, tiny, tmp_path / "run", progress=Silent()).fit()
    path = tmp_path / "run" / checkpoint.LAST
    tensors, header = records.read_tensors(path)
    for changes in ({"epoch": "x"}, {"selection": []}, {"versions": 5}):
        records.write_tensors(path, tensors, {**header, **changes})
        with pytest.raises(DamagedError, match="header"):
            Trainer(config, tiny, tmp_path / "run", resume=True, progress=Silent())


def test_the_state_of_an_optimizer_survives_the_file(tmp_path):
    weight = torch.nn.Parameter(torch.ones(3))
    adam = torch.optim.Adam([weight], 0.1)
    for step in range(3):
        weight.grad = torch.full((3,), float(step))
        adam.step()
    state = State(torch.nn.ParameterList([weight]), adam, None)
    records.write_tensors(tmp_path / "moments", state.tensors()["optimizer"], {})
    moments, _ = records.read_tensors(tmp_path / "moments")
    other_weight = torch.nn.Parameter(torch.zeros(3))
    other = torch.optim.Adam([other_weight], 0.1)
    again = State(torch.nn.ParameterList([other_weight]), other, None)
    again.load(state.tensors() | {"optimizer": moments}, state.counts())
    for optimizer, parameter in ((adam, weight), (other, other_weight)):
        parameter.grad = torch.ones(3)
        optimizer.step()
    assert torch.equal(weight, other_weight)
