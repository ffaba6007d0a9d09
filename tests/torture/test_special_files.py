"""Pipes and devices are refused wherever a file is expected: opening one may never end."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from contracts.small_runs import write_graph
from experiments.store import Store as Records
from graphdrop import load, load_dataset
from graphdrop.config import toml
from graphdrop.data.download import read_verified
from graphdrop.data.store import Store, convert
from graphdrop.io.files import check_regular, replace_file
from graphdrop.io.locks import folder_lock
from graphdrop.report.card import model_card
from graphdrop.train import checkpoint
from graphdrop.train.folder import Journal
from graphdrop.train.many import read_trials
from torture import valid_files

SECONDS = 300


@pytest.fixture(autouse=True)
def alarm():
    """A test that waits for a pipe fails."""

    def fail(*_: object) -> None:
        raise TimeoutError("it waits for a pipe or a device")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pipe(path: Path) -> Path:
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


def device(path: Path) -> Path:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize(
    ("special", "name"), [(pipe, "nodes.csv"), (device, "nodes.parquet"), (pipe, "graph.npz")]
)
def test_a_graph_that_is_a_pipe_or_a_device_is_refused(tmp_path, run, special, name):
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    code, _, said = run("data", "info", special(tmp_path / name))
    assert code == 2
    assert f"{name} cannot be read (a pipe or a device" in said


@pytest.mark.parametrize(
    ("special", "name"), [(pipe, "x.npy"), (device, "indices.npy"), (pipe, "manifest.json")]
)
def test_a_store_with_a_pipe_or_a_device_is_refused(tmp_path, special, name):
    store = convert(write_graph(tmp_path / "graph.npz"), tmp_path / "store")
    special(store / name)
    with pytest.raises(ValueError, match=name):
        Store(store).verify()


@pytest.mark.parametrize("special", [pipe, device])
def test_arrays_that_are_pipes_or_devices_are_not_converted(tmp_path, special):
    valid_files.arrays(tmp_path)
    folder = tmp_path / "npy"
    features = special(folder / "features.npy")
    with pytest.raises(ValueError, match="a pipe or a device"):
        convert(
            folder / "edges.npy", tmp_path / "o", features=features, labels=folder / "labels.npy"
        )


def open_lock(folder: Path) -> None:
    with folder_lock(folder):
        pass


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("config.toml", model_card),
        ("result.json", model_card),
        ("best.safetensors", load),
        ("last.safetensors", lambda folder: checkpoint.read_newest(folder, print)),
        ("metrics.jsonl", Journal),
        (".lock", open_lock),
    ],
)
def test_files_of_a_run_that_are_pipes_are_refused(tmp_path, name, read):
    pipe(tmp_path / name)
    if name == "result.json":
        (tmp_path / "config.toml").touch()
    with pytest.raises((OSError, ValueError), match=r"a pipe or a device|is not there|has no"):
        read(tmp_path)


def test_other_files_that_are_pipes_are_refused(tmp_path):
    pipes = [pipe(tmp_path / name) for name in ("runs.jsonl", "claims", ".file.tmp")]
    assert all(path.exists() for path in pipes)
    with pytest.raises(OSError, match="a pipe or a device"):
        Records(tmp_path).records()
    with pytest.raises(OSError, match="a pipe or a device"):
        Records(tmp_path).append({"key": "0" * 16})
    with pytest.raises(OSError, match="a pipe or a device"):
        replace_file(tmp_path / "file", b"")
    for read in (toml.read, read_trials, lambda path: read_verified(path, "")):
        with pytest.raises((OSError, ValueError), match="a pipe or a device"):
            read(pipes[0])


def test_a_link_to_a_file_is_a_file(tmp_path):
    np.savez(tmp_path / "a.npz", **valid_files.graph_arrays())
    (tmp_path / "b.npz").symlink_to(tmp_path / "a.npz")
    assert check_regular(tmp_path / "b.npz") == tmp_path / "b.npz"
    assert load_dataset(tmp_path / "b.npz", split="random-fractions").data.num_nodes == 12
    with folder_lock(tmp_path):
        pass
