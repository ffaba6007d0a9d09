"""A file is whole or not there, holds what was put in, and owns up to any change."""

from pathlib import Path

import pytest
import safetensors.torch
import torch

from graphdrop.train import records
from graphdrop.train.records import DamagedError

TENSORS = {
    "weight": torch.randn(7, 3, generator=torch.Generator().manual_seed(0)),
    "step": torch.tensor(3.0),
    "stream": torch.tensor([2**62, -1]),
    "empty": torch.empty(0, 4),
    "transposed": torch.arange(6.0).view(2, 3).T,
}
HEADER = {"epoch": 12, "nll": 0.1 + 0.2, "name": "Grüße", "nested": {"list": [1, None]}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "some.safetensors"
    records.write_tensors(file, TENSORS, HEADER)
    return file


def test_what_is_read_is_what_was_written(path):
    tensors, header = records.read_tensors(path)
    assert header == {**HEADER, "format": records.FORMAT}
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert torch.equal(tensors[name], tensor)
        assert tensors[name].dtype == tensor.dtype


def test_the_same_content_gives_the_same_bytes(path, tmp_path):
    backwards = dict(reversed(list(TENSORS.items())))
    records.write_tensors(tmp_path / "other", backwards, dict(reversed(list(HEADER.items()))))
    assert (tmp_path / "other").read_bytes() == path.read_bytes()


def test_the_file_opens_with_safetensors_alone(path):
    assert torch.equal(safetensors.torch.load_file(path)["weight"], TENSORS["weight"])


@pytest.mark.parametrize("first", range(0, 7, 2))
def test_a_changed_byte_is_noticed(path, first):
    whole = path.read_bytes()
    unnoticed = []
    for position in range(first, len(whole), 29):
        changed = bytearray(whole)
        changed[position] ^= 1
        path.write_bytes(changed)
        try:
            tensors, header = records.read_tensors(path)
        except DamagedError:
            continue
        # Blanks that pad the header carry no content.
        if whole[position : position + 1] != b" ":
            unnoticed.append((position, whole[position : position + 1]))
        assert header == {**HEADER, "format": records.FORMAT}
        assert tensors.keys() == TENSORS.keys()
    assert unnoticed == []


@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 0.99])
def test_a_file_that_is_cut_short_is_noticed(path, part):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(DamagedError, match=r"some\.safetensors is cut short or not a checkpoint"):
        records.read_tensors(path)


def test_a_file_of_somebody_elses_is_not_taken_for_ours(tmp_path):
    file = tmp_path / "other.safetensors"
    safetensors.torch.save_file({"weight": torch.ones(2)}, file)
    with pytest.raises(DamagedError, match="was not written by graphdrop"):
        records.read_tensors(file)


def test_a_write_that_fails_leaves_the_old_file_whole(path, monkeypatch):
    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        records.write_tensors(path, {"weight": torch.zeros(1)}, {})
    monkeypatch.undo()
    assert records.read_tensors(path)[1] == {**HEADER, "format": records.FORMAT}


def test_a_file_that_is_not_there_is_no_damage(tmp_path):
    with pytest.raises(FileNotFoundError):
        records.read_tensors(tmp_path / "absent")
