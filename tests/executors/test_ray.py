"""Runs as tasks of a Ray cluster: the same records, and errors that say what to do."""

import json
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from contracts import patience, two_nodes
from contracts.cluster_jobs import wait_until
from experiments import Store
from experiments.keys import run_key
from experiments.single_run import run_config
from graphdrop.config import settle
from graphdrop.executors import RayExecutor
from graphdrop.executors.ray import _attempt_on_node

REPRODUCTION = """
import json, sys
from experiments import Store, run_cells
from graphdrop.config import Config
from graphdrop.executors import RayExecutor

if __name__ == "__main__":
    configs = [Config(**one) for one in json.loads(sys.argv[2])]
    with RayExecutor(sys.argv[3]) as executor:
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


@pytest.fixture(scope="module")
def cluster():
    """The address of a cluster on this machine."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, two_nodes.__file__], text=True, **pipes)
    yield process.stdout.readline().split()[0]
    process.communicate()


def test_records_are_those_of_runs_in_this_process(tmp_path, cluster):
    configs = [settle(SMALL | {"seed": seed}) for seed in (0, 1)]
    (script := tmp_path / "reproduction.py").write_text(REPRODUCTION)
    given = json.dumps([config.model_dump(mode="json") for config in configs])
    command = [sys.executable, str(script), str(tmp_path / "ray"), given, cluster]
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
def test_seeds_stop_at_sigterm_with_their_state(tmp_path, cluster):
    out = tmp_path / "runs"
    options = "--dataset synthetic --recipe paper --epochs 1000000 --seeds 2 --executor ray"
    settings = ["--set", "train.checkpoint_seconds=0", "--set", "model.hidden=4"]
    command = [sys.executable, "-m", "graphdrop", "train", *options.split(), *settings]
    process = subprocess.Popen(
        [*command, "--ray-address", cluster, "--out", str(out)], stderr=subprocess.PIPE, text=True
    )
    states = [out / f"seed-{seed}" / "last.safetensors" for seed in (0, 1)]
    wait_until(
        lambda: process.poll() is not None or all(path.exists() for path in states), "checkpoints"
    )
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=patience.SECONDS)
    assert process.returncode == 128 + signal.SIGTERM
    assert "Stopped. What is finished is kept: the same command goes on." in errors
    assert "Traceback" not in errors


def test_without_ray_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"run `pip install '\.\[distributed\]'` in a checkout"):
        list(RayExecutor().run([]))


def test_without_a_cluster_the_error_says_how_to_start_one(monkeypatch):
    def refuse(*_, **__):
        raise ConnectionError

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=refuse))
    with pytest.raises(ValueError, match="is head:1, and no cluster answers there: start one with"):
        list(RayExecutor("head:1").run([]))


def test_rays_client_is_refused():
    with pytest.raises(ValueError, match="it takes host:port or auto"):
        RayExecutor("ray://head:10001")


def test_another_version_on_a_node_is_an_error():
    _, failure = _attempt_on_node(b"", 1, None, "0.0")
    assert "install the same version on every node" in failure
