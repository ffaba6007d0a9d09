"""Workers, a node and the driver are killed: no finished run is lost, none is stored twice."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from contracts import patience, two_nodes
from contracts.cluster_jobs import marks, wait_until
from experiments.store import Store

DRIVER = """
import sys
from contracts.cluster_jobs import pretend_run
from graphdrop.config import settle
from graphdrop.executors import RayExecutor
from experiments import Store, run_cells, runner

if __name__ == "__main__":
    runner.checked_run, runner.data_fingerprint = pretend_run, lambda config: ""
    settings = {"recipe": "paper", "data": {"dataset": "synthetic"}}
    configs = [settle(settings | {"seed": seed}) for seed in range(6)]
    with RayExecutor(sys.argv[2]) as executor:
        run_cells(configs, Store(sys.argv[1]), executor=executor)
"""


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """The address of a cluster of two nodes, and the process of the second one."""
    monkeypatch.setenv("MARKS", str(tmp_path))
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path) if len(str(tmp_path)) < 30 else "/tmp")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, two_nodes.__file__], text=True, **pipes)
    address, raylet = process.stdout.readline().split()
    yield address, int(raylet)
    process.communicate()


def begun() -> Counter:
    """How often the run of each seed has begun."""
    return Counter(int(seed) for seed, _, _ in marks("begun"))


def stored(store: Store) -> list[int]:
    if not store.path.exists():
        return []
    return sorted(record["seed"] for record in Store(store.folder).records().values())


@pytest.mark.slow
def test_killed_workers_nodes_and_drivers_lose_nothing_and_repeat_nothing(tmp_path, cluster):
    address, second = cluster
    store = Store(tmp_path / "results")
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    command = [sys.executable, str(script), str(store.folder), address]
    driver = subprocess.Popen(command)

    # Of the runs, 0 and 2 are done, 1 and 3 wait, each on its node.
    def both_wait() -> bool:
        assert driver.poll() is None, "the driver has ended"
        return {1, 3} <= set(begun()) and stored(store) == [0, 2]

    wait_until(both_wait, "one task on each node")
    where = {int(seed): (int(pid), int(parent)) for seed, pid, parent in marks("begun")}
    there = next(seed for seed in (1, 3) if where[seed][1] == second)
    here = 4 - there

    os.kill(where[here][0], signal.SIGKILL)  # a worker of the first node
    wait_until(lambda: begun()[here] == 2, "the run of the killed worker on another")
    os.kill(second, signal.SIGKILL)  # the second node and its worker
    os.kill(where[there][0], signal.SIGKILL)
    for seed in (here, 5):
        Path(tmp_path / f"go-{seed}").touch()
    wait_until(lambda: begun()[there] == 2, "the run of the lost node on the other one")
    wait_until(lambda: {0, 2, here} <= set(stored(store)), "the records of what is finished")

    driver.send_signal(signal.SIGKILL)
    driver.wait()
    kept, before = store.path.read_bytes(), begun()
    done = stored(store)
    Path(tmp_path / f"go-{there}").touch()
    subprocess.run(command, check=True, timeout=patience.SECONDS)
    assert store.path.read_bytes().startswith(kept)
    assert stored(store) == list(range(6))
    assert store.path.read_bytes().count(b"\n") == 6
    assert [begun()[seed] for seed in done] == [before[seed] for seed in done]
    assert begun()[0] == begun()[2] == 1  # though their workers were killed
