"""Runs are made once, whoever asks, and a killed process loses none that was finished."""

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from contracts import patience
from experiments import run_cells
from experiments.display import Display, Line, LiveTable
from experiments.keys import run_key
from experiments.store import Store


class Heard(Display):
    """Notes what it hears."""

    def __init__(self) -> None:
        self.started_keys: list[str] = []
        self.finished_keys: list[str] = []

    def started(self, key: str) -> None:
        self.started_keys.append(key)

    def finished(self, key: str, record: dict) -> None:
        self.finished_keys.append(key)


def test_runs_are_made_once_and_given_in_order(tmp_path, tiny_config):
    configs = [tiny_config(seed) for seed in (2, 0, 2, 1)]
    store, heard = Store(tmp_path), Heard()
    records = run_cells(configs, store, jobs=2, display=heard)
    assert [record["seed"] for record in records] == [2, 0, 2, 1]
    assert sorted(heard.finished_keys) == sorted({run_key(config) for config in configs})
    again = Heard()
    assert run_cells(configs, store, jobs=2, display=again) == records
    assert again.started_keys == []
    assert store.path.read_bytes().count(b"\n") == 3


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


def test_the_live_table_tells_how_far_it_is_and_how_long_it_takes():
    record = {"seconds": 30.0, "test": {"accuracy": 0.8}}
    lines = {"known": Line(["a", "b"], {"a": record}), "new": Line(["c", "d"])}
    table = LiveTable("table1", lines, jobs=2)
    # One run left of the known cell, two of the new one, all at 30 s, in two processes.
    assert table.seconds_left() == pytest.approx(45.0)
    table.started("c")
    assert table.summary() == "table1: 1 of 4 runs, 45 s left"
    table.finished("c", {"seconds": 90.0, "test": {"accuracy": 0.7}})
    assert table.seconds_left() == pytest.approx((30.0 + 90.0) / 2)
    table.started("d")
    table.postponed("d")
    assert table.summary() == "table1: 2 of 4 runs, 60 s left; 1 made by another process"
    assert table.table().row_count == 2


@pytest.mark.parametrize("terminal", [True, False])
def test_it_is_a_table_in_a_terminal_and_lines_elsewhere(terminal):
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    display = LiveTable("table1", {"a cell": Line(["a"])}, 1, console)
    with display.showing():
        display.started("a")
    shown = console.file.getvalue()
    assert "table1: 0 of 1 runs" in shown
    assert ("0/1" in shown) == terminal


def test_nothing_is_known_before_the_first_run_is_done():
    table = LiveTable("table1", {"cell": Line(["a"])}, jobs=1)
    assert table.seconds_left() is None
    assert table.summary() == "table1: 0 of 1 runs, time left not known yet"
