"""Files of a run that were damaged are refused by name, and two writers never share a folder."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from contracts.patience import SECONDS
from graphdrop import load
from graphdrop.cli import main
from graphdrop.io.locks import LockedError
from graphdrop.train import Trainer, records
from graphdrop.train.progress import Silent
from graphdrop.train.records import metrics_lines, result_note


@pytest.fixture
def run(tiny, settings_of, tmp_path):
    config = settings_of(train={"epochs": 3, "checkpoint_seconds": 0.0})
    Trainer(config, tiny, tmp_path / "run", progress=Silent()).fit()
    return tmp_path / "run"


@pytest.mark.parametrize("line", ["[]", "1", "{}", '{"epoch": "x", "loss": 1.0}', "null"])
def test_a_line_of_metrics_of_another_type_is_named(run, line):
    path = run / "metrics.jsonl"
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(records.DamagedError, match=r"metrics\.jsonl, line 4 was damaged"):
        list(metrics_lines(path))


@pytest.mark.parametrize("content", ["[]", "1", '{"seconds": "x"}', '{"data": 5}', "{"])
def test_a_result_of_another_type_is_named(run, content):
    (run / "result.json").write_text(content)
    with pytest.raises(records.DamagedError, match=r"result\.json"):
        result_note(run / "result.json")


@pytest.mark.parametrize(
    "changes",
    [{"kind": 5}, {"blueprint": []}, {"blueprint": {}}, {"defaults": {"samples": 3, "x": 1}}],
)
def test_a_model_with_a_right_checksum_and_a_wrong_header_is_refused(run, changes):
    tensors, header = records.read_tensors(run / "best.safetensors")
    records.write_tensors(run / "best.safetensors", tensors, {**header, **changes})
    with pytest.raises(ValueError, match="header"):
        load(run)


def test_tensors_of_another_shape_are_refused(run):
    tensors, header = records.read_tensors(run / "best.safetensors")
    tensors["layers.0.weight"] = tensors["layers.0.weight"][:3]
    records.write_tensors(run / "best.safetensors", tensors, header)
    with pytest.raises(ValueError, match="the state is not that of this GCN"):
        load(run)


@pytest.mark.parametrize("changes", [{"epoch": "x"}, {"selection": []}, {"versions": 5}])
def test_a_checkpoint_with_a_wrong_header_is_refused(run, tiny, settings_of, changes):
    tensors, header = records.read_tensors(run / "last.safetensors")
    records.write_tensors(run / "last.safetensors", tensors, {**header, **changes})
    config = settings_of(train={"epochs": 3, "checkpoint_seconds": 0.0})
    with pytest.raises(records.DamagedError, match="header"):
        Trainer(config, tiny, run, resume=True, progress=Silent())


def test_a_folder_has_one_writer_and_a_run_that_ended_leaves_it(run, tiny, settings_of):
    config = settings_of(train={"epochs": 3, "checkpoint_seconds": 0.0})
    one = Trainer(config, tiny, run, resume=True, progress=Silent())
    with pytest.raises(LockedError, match="is in use by"):
        Trainer(config, tiny, run, resume=True, progress=Silent())
    one.fit()
    Trainer(config, tiny, run, resume=True, progress=Silent()).fit()


# That SIGINT is heard as well is also seen where it comes twice, in torture/test_faults.py.
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_saves_the_run_and_says_how_to_go_on(tmp_path, number):
    out = tmp_path / "run"
    words = ["train", "--dataset", "synthetic", "--epochs", "100000", "--out", str(out)]
    command = [sys.executable, "-m", "graphdrop", *words, "--set", "train.checkpoint_seconds=1e6"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    deadline = time.monotonic() + SECONDS
    while not (out / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1.0)
    process.send_signal(number)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 128 + number
    assert f"graphdrop train --out {out} --resume" in said
    _, header = records.read_tensors(out / "last.safetensors")
    assert header["epoch"] >= 1
    lines = [json.loads(text) for text in (out / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == header["epoch"]


def test_a_network_that_would_not_fit_is_refused_by_name(capsys, tmp_path):
    words = ["train", "--dataset", "synthetic", "--out", str(tmp_path / "a")]
    with pytest.raises(SystemExit) as stopped:
        main([*words, "--set", "model.hidden=1000000000"])
    assert stopped.value.code == 2
    assert "model.hidden is 1000000000" in capsys.readouterr().err
