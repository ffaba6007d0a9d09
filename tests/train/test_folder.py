"""A run's folder has one writer, a line for every epoch, and is never overwritten."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from contracts.patience import SECONDS
from graphdrop.io.locks import LockedError
from graphdrop.train import Trainer, records
from graphdrop.train.folder import METRICS, Journal
from graphdrop.train.progress import Silent


def written(folder: Path) -> list[int]:
    return [json.loads(line)["epoch"] for line in (folder / METRICS).read_text().splitlines()]


def write(folder: Path, epochs: range, after: int = 0) -> list[int]:
    journal = Journal(folder, after)
    for epoch in epochs:
        journal.write({"epoch": epoch, "loss": epoch / 7})
    journal.close()
    return [line["epoch"] for line in journal.lines]


def test_lines_after_the_checkpoint_are_dropped_and_written_anew(tmp_path):
    write(tmp_path, range(1, 9))
    assert write(tmp_path, range(6, 8), after=5) == [1, 2, 3, 4, 5, 6, 7]
    assert written(tmp_path) == [1, 2, 3, 4, 5, 6, 7]


def test_a_line_that_was_cut_short_is_dropped(tmp_path):
    write(tmp_path, range(1, 4))
    path = tmp_path / METRICS
    path.write_text(path.read_text()[:-9])
    Journal(tmp_path, 3).close()
    assert written(tmp_path) == [1, 2]


def test_a_folder_with_anything_in_it_is_refused_and_left_alone(tiny, settings_of, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for folder, resume, said in (
        (tmp_path, False, "is not empty: to go on with the run in it pass --resume"),
        (tmp_path, True, r"has no config\.toml"),
        (tmp_path / "notes.txt", False, r"notes\.txt is a file"),
    ):
        with pytest.raises(ValueError, match=said):
            Trainer(settings_of(), tiny, folder, resume=resume, progress=Silent())
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_settings_that_cannot_work_leave_no_folder_behind(tiny, settings_of, tmp_path):
    config = settings_of("GCN", objective={"l2_factor": "drop"})
    with pytest.raises(ValueError, match="l2_factor"):
        Trainer(config, tiny, tmp_path / "run", progress=Silent())
    assert not (tmp_path / "run").exists()


def test_a_folder_has_one_writer_and_a_run_that_ended_leaves_it(tiny, settings_of, tmp_path):
    config, out = settings_of(train={"epochs": 2}), tmp_path / "run"
    first = Trainer(config, tiny, out, progress=Silent())
    with pytest.raises(LockedError, match="is in use by"):
        Trainer(config, tiny, out, resume=True, progress=Silent())
    result = first.fit()
    again = Trainer(config, tiny, out, resume=True, progress=Silent()).fit()
    assert (again.test, again.validation) == (result.test, result.validation)


# That SIGINT is heard as well is also seen where it comes twice, in torture/test_faults.py.
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_saves_the_run_and_says_how_to_go_on(tmp_path, number):
    out = tmp_path / "run"
    words = ["train", "--dataset", "synthetic", "--epochs", "100000", "--recipe", "paper"]
    settings = ["--set", "train.checkpoint_seconds=1e6", "--set", "model.hidden=4"]
    command = [sys.executable, "-m", "graphdrop", *words, *settings, "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    deadline = time.monotonic() + SECONDS
    while not (out / METRICS).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 128 + number
    assert f"graphdrop train --out {out} --resume" in said
    _, header = records.read_tensors(out / "last.safetensors")
    assert written(out) == list(range(1, header["epoch"] + 1))
