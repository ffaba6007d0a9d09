"""A full disk, a closed folder, a vanished file, a clock that goes back, signals, two writers."""

import errno
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from contracts.patience import SECONDS
from contracts.small_runs import train, write_graph
from experiments.__main__ import main as experiments_command
from experiments.store import Store as Records
from graphdrop import load, load_dataset
from graphdrop.data import download
from graphdrop.data.store import convert
from graphdrop.io import files
from graphdrop.io.files import replace_file

TESTS = Path(__file__).parents[1]
PATH = {"PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS.parent}:{TESTS}", "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def graph(tmp_path_factory) -> Path:
    return write_graph(tmp_path_factory.mktemp("data") / "graph.npz")


@pytest.fixture
def full_disk():
    """No file may grow beyond so many bytes, as on a disk without room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_run_whose_disk_is_full_says_so_and_goes_on_when_there_is_room(
    graph, run, full_disk, tmp_path
):
    out = tmp_path / "run"
    words = ["train", "--dataset", graph, "--recipe", "paper", "--epochs", 6, "--out", out]
    words += ["--set", "train.checkpoint_seconds=0", "--set", "model.hidden=64", "--resume"]
    unbroken = tmp_path / "unbroken"
    assert run(*[unbroken if word == out else word for word in words])[0] == 0
    full_disk(20_000)  # the settings fit, a checkpoint does not
    code, _, said = run(*words)
    assert code == 2
    assert "File too large" in said
    assert f"{out}/" in said
    assert len(said.strip().splitlines()) == 1
    assert not list(out.glob("*.tmp"))
    full_disk(resource.RLIM_INFINITY)
    assert run(*words)[0] == 0
    found = [json.loads((folder / "result.json").read_text()) for folder in (out, unbroken)]
    assert found[0]["test"] == found[1]["test"]


def test_a_store_of_records_on_a_full_disk_keeps_what_it_has(full_disk, tmp_path):
    store = Records(tmp_path)
    store.append({"key": "0" * 16, "seed": 0})
    size = store.path.stat().st_size
    full_disk(size + 10)
    with pytest.raises(OSError, match=r"is the disk full|File too large"):
        store.append({"key": "1" * 16, "seed": 1})
    full_disk(resource.RLIM_INFINITY)
    store.append({"key": "2" * 16, "seed": 2})
    assert [record["seed"] for record in Records(tmp_path).records().values()] == [0, 2]


def test_a_store_of_a_graph_on_a_full_disk_leaves_nothing(graph, full_disk, tmp_path):
    full_disk(3000)
    with pytest.raises(OSError, match="File too large"):
        convert(graph, tmp_path / "store")
    full_disk(resource.RLIM_INFINITY)
    assert list(tmp_path.iterdir()) == []
    assert load_dataset(convert(graph, tmp_path / "store")).data.num_nodes == 80


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
def test_any_refusal_of_the_system_names_the_file_and_keeps_the_old_one(
    number, tmp_path, monkeypatch
):
    path = tmp_path / "file"
    replace_file(path, b"old")

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, "fsync", refuse)
    with pytest.raises(OSError, match=r"file'$") as error:
        replace_file(path, b"new")
    assert error.value.errno == number
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_writable_is_an_error_of_one_line(graph, run, tmp_path, monkeypatch):
    closed = tmp_path / "closed"
    closed.mkdir()
    # no mode of a folder stops the superuser, as whom tests may run
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) != closed)
    code, _, said = run("train", "--dataset", graph, "--epochs", 1, "--out", closed / "run")
    assert code == 2
    assert said == f"graphdrop: error: {closed}: Permission denied\n"  # before any trial

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(closed / "store"))

    monkeypatch.setattr(Path, "mkdir", refuse)
    code, _, said = run("data", "convert", graph, closed / "store")
    assert (code, said) == (2, f"graphdrop: error: {closed / 'store'}: Permission denied\n")


def test_a_file_that_vanishes_is_named(graph, run, tmp_path):
    out = train(tmp_path / "run", graph)
    for name in ("config.toml", "best.safetensors"):
        content = (out / name).read_bytes()
        (out / name).unlink()
        code, _, said = run("evaluate", out)
        assert code == 2
        assert name in said
        (out / name).write_bytes(content)
    moved = graph.rename(graph.with_name("elsewhere.npz"))
    try:
        code, _, said = run("evaluate", out)
        assert code == 2
        assert str(graph) in said
        assert run("evaluate", out, "--dataset", moved)[0] == 0
    finally:
        moved.rename(graph)


def test_a_clock_that_goes_back_changes_no_result(graph, tmp_path, monkeypatch):
    expected = train(tmp_path / "a", graph)
    ticks = iter(range(10**9, 0, -3600))
    monkeypatch.setattr(time, "time", lambda: float(next(ticks)))
    found = train(tmp_path / "b", graph)
    assert (expected / "best.safetensors").read_bytes() == (found / "best.safetensors").read_bytes()
    assert load(found).drop_rates() == load(expected).drop_rates()


TWO = """
import sys
from pathlib import Path
from graphdrop.data.store import convert
from experiments.store import Store
try:
    convert(sys.argv[1], sys.argv[2])
except ValueError as error:
    print(error)
store = Store(sys.argv[3])
for seed in range(200):
    store.append({"key": f"{seed:04x}{sys.argv[4]:0>12}", "seed": seed})
"""


def test_two_processes_on_one_store_and_one_file_of_records_lose_nothing(graph, tmp_path):
    script = tmp_path / "two.py"
    script.write_text(TWO)
    words = [str(script), str(graph), str(tmp_path / "store"), str(tmp_path / "records")]
    both = [
        subprocess.Popen(
            [sys.executable, *words, str(number)],
            env=os.environ | PATH,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in (1, 2)
    ]
    said = [one.communicate(timeout=SECONDS)[0] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert all(not text or "exists already" in text or "in use by" in text for text in said)
    assert load_dataset(tmp_path / "store").data.num_nodes == 80
    assert len(Records(tmp_path / "records").records()) == 400


def test_many_writers_of_one_file_in_the_cache_leave_it_whole(tmp_path):
    content = b"x" * 300_000
    wanted = download.Wanted(len(content), hashlib.sha256(content).hexdigest(), tmp_path / "file")

    def write(_: int) -> None:
        parts = (content[at : at + 1000] for at in range(0, len(content), 1000))
        download.write_verified(parts, wanted, "a test")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(16)))
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [content]


def test_a_second_signal_ends_a_run_at_once_and_what_was_kept_resumes(graph, tmp_path):
    numbers = (signal.SIGINT, signal.SIGINT)
    out = tmp_path / "run"
    words = ["train", "--dataset", graph, "--recipe", "paper", "--epochs", 10**7, "--out", out]
    words += ["--set", "train.checkpoint_seconds=0", "--set", "model.hidden=4"]
    words += ["--set", "train.evaluate_every=1"]
    command = [sys.executable, "-m", "graphdrop", *map(str, words)]
    environment = os.environ | PATH
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + SECONDS
    while not (out / "best.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    for number in numbers:
        process.send_signal(number)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode in {128 + number for number in numbers}  # of two that wait, either
    assert "Traceback" not in said
    load(out)


@pytest.mark.parametrize("words", [["table1"], ["search", "table1"]])
def test_a_stopped_reproduction_or_search_ends_with_the_number_of_the_signal(
    monkeypatch, tmp_path, capsys, words
):
    def interrupted(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("experiments.targets.run_cells", interrupted)
    monkeypatch.setattr("experiments.search_ranking.run_cells", interrupted)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        experiments_command([*words, "--jobs", "1"])
    assert stopped.value.code == 128 + signal.SIGTERM
    said = capsys.readouterr().err
    assert said.endswith("Stopped. What is finished is kept: the same command goes on.\n")
