"""A file is whole or not there, holds what was put in, and every change of it is noticed."""

from pathlib import Path

import pytest
import safetensors.torch
import torch

import graphdrop
from graphdrop.train import records
from graphdrop.train.records import DamagedError, metrics_lines, result_note, versions

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


def test_a_changed_byte_is_noticed(path):
    whole = path.read_bytes()
    for position in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[position] ^= 1
        path.write_bytes(changed)
        try:
            tensors, header = records.read_tensors(path)
        except DamagedError:
            continue
        assert whole[position : position + 1] == b" "  # blanks that pad the header say nothing
        assert header == {**HEADER, "format": records.FORMAT}
        assert tensors.keys() == TENSORS.keys()


@pytest.mark.parametrize("part", [0.0, 0.01, 0.99])
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


def test_a_write_to_a_full_disk_leaves_the_old_file_whole(path, monkeypatch):
    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        records.write_tensors(path, {"weight": torch.zeros(1)}, {})
    monkeypatch.undo()
    assert records.read_tensors(path)[1] == {**HEADER, "format": records.FORMAT}


@pytest.mark.parametrize("line", ["[]", "{}", '{"epoch": "x", "loss": 1.0}', "null"])
def test_a_line_of_metrics_of_another_type_is_named(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"epoch": 1, "loss": 0.5}}\n{line}\n')
    with pytest.raises(DamagedError, match=r"metrics\.jsonl, line 2 was damaged"):
        list(metrics_lines(path))


@pytest.mark.parametrize("content", ["[]", '{"seconds": "x"}', '{"data": 5}', "{"])
def test_a_result_of_another_type_is_named(tmp_path, content):
    path = tmp_path / "result.json"
    path.write_text(content)
    with pytest.raises(DamagedError, match=r"result\.json"):
        result_note(path)


def test_versions_name_what_the_numbers_depend_on():
    assert versions()["graphdrop"] == graphdrop.__version__
    assert {"python", "torch", "numpy", "numba"} <= versions().keys()
