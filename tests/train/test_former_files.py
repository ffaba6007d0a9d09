"""Files that were written before 0.2 open as ever, and a run in such a folder goes on."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphdrop import Trainer, load, predict
from graphdrop.train import checkpoint, tensor_file
from graphdrop.train.progress import Silent


@contextmanager
def former_archive(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within it files are written without the number of their format."""

    def dumps(value: dict[str, Any], **options: Any) -> str:
        return json.dumps({k: v for k, v in value.items() if k != "format"}, **options)

    with monkeypatch.context() as patch:
        patch.setattr(tensor_file, "json", SimpleNamespace(dumps=dumps, loads=json.loads))
        yield


def made_former(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run's folder as the former version left it."""
    tensors, header = tensor_file.read(folder / checkpoint.BEST)
    blueprint = header["blueprint"]
    for name in ("in", "out"):
        blueprint[f"{name}_features"] = blueprint.pop(f"{name}_channels")
    for name in ("format", "defaults", "estimator"):
        del header[name]
    tensors = {n: t for n, t in tensors.items() if not n.startswith("estimator.")}
    states, last = tensor_file.read(folder / checkpoint.LAST)
    renamed = {
        name.replace("model/estimator.", "estimator/").replace("optimizer/", "optimiser/"): tensor
        for name, tensor in states.items()
        if not name.startswith("best/estimator.")
    }
    assert renamed.keys() != states.keys()
    del last["format"]
    with former_archive(monkeypatch):
        tensor_file.write(folder / checkpoint.BEST, tensors, header)
        tensor_file.write(folder / checkpoint.LAST, renamed, last)
    assert "format" not in tensor_file.read(folder / checkpoint.BEST)[1]


def test_the_network_of_a_former_run_predicts_as_it_did(tiny, settings_of, tmp_path, monkeypatch):
    config = settings_of(data={"features": "row"})
    trainer = Trainer(config, tiny, tmp_path / "run", progress=Silent())
    trainer.fit()
    wanted = predict(trainer.model, tiny.data)
    made_former(tmp_path / "run", monkeypatch)
    again = load(tmp_path / "run")
    assert again.defaults.features == "row"
    found = predict(again, tiny.data)
    assert torch.equal(found.probabilities, wanted.probabilities)
    assert (found.samples, found.decision) == (wanted.samples, wanted.decision)


class Interrupting(Silent):
    def update(self, line: Any, selection: Any) -> None:
        if line["epoch"] == 3:
            raise KeyboardInterrupt


def test_a_former_run_goes_on_with_the_same_bits(tiny, settings_of, tmp_path, monkeypatch):
    # REINFORCE has a running mean to be brought back.
    config = settings_of(train={"estimator": "reinforce", "checkpoint_seconds": 0.0})
    whole = Trainer(config, tiny, tmp_path / "whole", progress=Silent())
    whole.fit()
    with pytest.raises(KeyboardInterrupt):
        Trainer(config, tiny, tmp_path / "run", progress=Interrupting()).fit()
    made_former(tmp_path / "run", monkeypatch)
    again = Trainer(config, tiny, tmp_path / "run", resume=True, progress=Silent())
    assert again.epoch == 2 or again.epoch == 3
    again.fit()
    wanted = whole.model.state_dict()
    assert all(torch.equal(value, wanted[n]) for n, value in again.model.state_dict().items())
