"""Runs as Ray tasks on a cluster of this machine alone: the same records, and a clean end."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from contracts import patience
from contracts.cluster_jobs import wait_until
from experiments import Store
from experiments.keys import run_key
from experiments.single_run import run_config
from graphdrop.config import settle
from graphdrop.executors import Event
from graphdrop.executors.groups import Task
from graphdrop.executors.ray_tasks import RayExecutor

linux = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc")


def processes_with(word: str) -> list[Path]:
    """The processes whose environment has this word."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (folder / "environ").read_bytes():
                found.append(folder)
        except OSError:
            continue
    return found


def listening(processes: list[Path]) -> set[str]:
    """The addresses that these processes listen on, in hexadecimal digits."""
    sockets = set()
    for folder in processes:
        try:
            sockets |= {os.readlink(link) for link in (folder / "fd").iterdir()}
        except OSError:
            continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and f"socket:[{rest[5]}]" in sockets:
                found.add(local.partition(":")[0])
    return found


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}
REPRODUCTION = """
import json, sys
from graphdrop.config import Config
from graphdrop.config import settle
from graphdrop.executors.ray_tasks import RayExecutor
from experiments import Store, run_cells

if __name__ == "__main__":
    configs = [Config(**one) for one in json.loads(sys.argv[2])]
    with RayExecutor(jobs=1, group=2) as executor:
        run_cells(configs, Store(sys.argv[1]), executor=executor)
"""


MEASURED = {"seconds", "cpu_seconds", "seconds_per_epoch", "peak_megabytes"}
SMALL = {
    "recipe": "paper",
    "data": {"dataset": "synthetic"},
    "model": {"layers": 2, "hidden": 4},
    "train": {"epochs": 4, "evaluate_every": 2, "samples": 2},
    "predict": {"samples": 2},
}


def test_records_are_those_of_runs_in_this_process(tmp_path):
    configs = [settle(SMALL | {"seed": seed}) for seed in (0, 1)]
    (script := tmp_path / "reproduction.py").write_text(REPRODUCTION)
    given = json.dumps([config.model_dump(mode="json") for config in configs])
    command = [sys.executable, str(script), str(tmp_path / "ray"), given]
    done = subprocess.run(
        command, check=True, timeout=patience.SECONDS, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("", "")

    def comparable(record: dict) -> dict:
        return {key: value for key, value in record.items() if key not in MEASURED}

    records = Store(tmp_path / "ray").records()
    assert [comparable(records[run_key(config)]) for config in configs] == [
        json.loads(json.dumps(comparable(run_config(config)))) for config in configs
    ]


@pytest.mark.slow
@linux
def test_seeds_stop_at_sigterm_with_their_state_and_nothing_goes_on_or_listens(tmp_path):
    out, word = tmp_path / "runs", f"STOPPED={tmp_path}"
    options = (
        "--dataset synthetic --recipe paper --epochs 1000000 --seeds 2 --executor ray --jobs 2"
    )
    settings = ["--set", "train.checkpoint_seconds=0", "--set", "model.hidden=4"]
    command = [sys.executable, "-m", "graphdrop", "train", *options.split(), *settings]
    environment = os.environ | {"STOPPED": str(tmp_path)}
    process = subprocess.Popen(
        [*command, "--out", str(out)], env=environment, stderr=subprocess.PIPE, text=True
    )
    states = [out / f"seed-{seed}" / "last.safetensors" for seed in (0, 1)]
    wait_until(
        lambda: process.poll() is not None or all(path.exists() for path in states), "checkpoints"
    )
    heard = listening(processes_with(word))
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=patience.SECONDS)
    assert process.returncode == 128 + signal.SIGTERM
    assert "Stopped. What is finished is kept: the same command goes on." in errors
    assert "Traceback" not in errors
    assert heard
    assert heard <= LOOPBACK
    wait_until(lambda: not processes_with(word), "the end of Ray's processes")


def test_a_task_that_lost_its_worker_can_be_done_again_and_one_that_raised_cannot():
    """What becomes of it is for `test_groups.py`; on real nodes, for `test_ray_kills.py`."""

    class RayError(Exception):
        pass

    class RayTaskError(RayError):
        pass

    def get(item):
        if isinstance(item, Exception):
            raise item
        return item

    executor = RayExecutor("auto")
    executor._ray = SimpleNamespace(
        wait=lambda handles, **_: (handles, []),
        get=get,
        exceptions=SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError),
    )
    streams = {
        "killed": [Event("1", "finished", 5), RayError("the node\ndied")],
        "raised": [RayTaskError("division by zero")],
        "ended": [],
    }
    tasks = {name: Task({"1": None, "2": None}, iter(items)) for name, items in streams.items()}
    heard = [event for _ in range(2) for event in executor.poll([tasks["killed"]], 0.0)]
    assert [(event.key, event.what) for _, event in heard] == [("1", "finished")]
    assert (tasks["killed"].over, tasks["killed"].lost) == (True, "the node died")
    failed = [event for _, event in executor.poll([tasks["raised"], tasks["ended"]], 0.0)]
    assert [(event.key, event.what) for event in failed] == [("1", "failed"), ("2", "failed")]
    assert "division by zero" in str(failed[0].value)
    assert all(tasks[name].over and not tasks[name].lost for name in ("raised", "ended"))


def test_without_ray_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"run `pip install '\.\[distributed\]'` in a checkout"):
        RayExecutor().at_once()


def test_rays_client_is_refused():
    with pytest.raises(ValueError, match="it takes host:port or auto"):
        RayExecutor("ray://head:10001")
