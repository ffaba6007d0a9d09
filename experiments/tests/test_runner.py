"""Runs are made once, whoever asks, and a killed process loses none that was finished."""

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from contracts import patience
from experiments import run_cells
from experiments.display import Display
from experiments.keys import run_key
from experiments.store import Store
from graphdrop.io.visible import Console


def test_a_run_that_fails_says_which_and_why(tmp_path, tiny_config):
    path = tmp_path / "not.npz"
    path.write_bytes(b"nothing")
    config = tiny_config(seed=7, data={"dataset": str(path)})
    with pytest.raises(
        ValueError, match=r"GCN-BBGDC, .*, 3 layers, seed 7 failed: not\.npz is not"
    ):
        run_cells([config], Store(tmp_path / "store"))


REPRODUCTION = """
import sys
from graphdrop.config import settle
from experiments import Store, run_cells

if __name__ == "__main__":
    configs = [
        settle({
            "seed": seed,
            "recipe": "paper",
            "data": {"dataset": "synthetic"},
            "model": {"layers": 2, "hidden": 4},
            "train": {"epochs": 60, "samples": 2},
            "predict": {"samples": 2},
        })
        for seed in range(6)
    ]
    run_cells(configs, Store(sys.argv[1]), jobs=2)
"""


def lines_in(store: Store) -> int:
    return store.path.read_bytes().count(b"\n") if store.path.exists() else 0


def wait_until(condition, what: str) -> None:
    deadline = time.monotonic() + patience.SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.02)


def processes_with(word: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environ = (folder / "environ").read_bytes()
        except OSError:
            continue
        if word.encode() in environ:
            found.append(int(folder.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc to find workers")
def test_a_killed_reproduction_loses_no_finished_run_and_repeats_none(tmp_path):
    script, store = tmp_path / "reproduction.py", Store(tmp_path / "results")
    script.write_text(REPRODUCTION)
    command = [sys.executable, str(script), str(store.folder)]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "REPRODUCTION": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    first = subprocess.Popen(command, env=environment)
    wait_until(lambda: lines_in(store) >= 2, "two finished runs")
    first.send_signal(signal.SIGKILL)
    first.wait()
    wait_until(lambda: not processes_with(f"REPRODUCTION={tmp_path}"), "the workers' end")
    kept = store.path.read_bytes()
    kept = kept[: kept.rindex(b"\n") + 1]
    assert 2 <= kept.count(b"\n") < 6
    # Two at once go on with it, and share the rest.
    both = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert [one.wait(timeout=patience.SECONDS) for one in both] == [0, 0]
    assert store.path.read_bytes().startswith(kept)
    assert store.path.read_bytes().count(b"\n") == 6
    assert sorted(record["seed"] for record in store.records().values()) == list(range(6))


def test_runs_are_made_once_in_order_and_progress_is_told(tmp_path, tiny_config):
    configs = [tiny_config(seed) for seed in (2, 0, 2, 1)]
    store, console = Store(tmp_path), Console(file=io.StringIO(), width=100)
    cells = {"a cell": sorted({run_key(config) for config in configs})}
    display = Display("table1", cells, console)
    records = run_cells(configs, store, jobs=2, display=display)
    assert [record["seed"] for record in records] == [2, 0, 2, 1]
    assert console.file.getvalue().startswith("table1: 0 of 3 runs\n")
    assert run_cells(configs, store, jobs=2) == records
    assert store.path.read_bytes().count(b"\n") == 3
    display = Display("table1", cells, Console(file=io.StringIO(), force_terminal=True, width=100))
    with display.showing(store.records()):
        pass
    assert "3/3" in display.console.file.getvalue()
