"""A run that was killed at any moment goes on and ends with the bits of one that was not."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from graphdrop.train import Trainer, checkpoint, records
from graphdrop.train.progress import Silent

KILLABLE = Path(__file__).parents[1] / "contracts" / "killable.py"
EPOCHS = 40


class Killable:
    """Starts training processes, and knows how they ended."""

    def __init__(self) -> None:
        # One thread: a process that only forks must not have any others.
        environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, str(KILLABLE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self._answer() == "ready"

    def start(self, *words: str) -> int:
        return int(self._ask(" ".join(("train", *words))))

    def wait(self, process: int) -> int:
        return int(self._ask(f"wait {process}"))

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def _ask(self, line: str) -> str:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        return self.process.stdout.readline().strip()


@pytest.fixture(scope="module")
def killable() -> Iterator[Killable]:
    started = Killable()
    yield started
    started.close()


@pytest.fixture(scope="module")
def npz(tiny, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "tiny.npz"
    masks = {
        f"{n}_masks": m.numpy()[None]
        for n, m in zip(
            ("train", "val", "test"),
            (tiny.split.train, tiny.split.val, tiny.split.test),
            strict=True,
        )
    }
    np.savez(
        path,
        node_features=tiny.data.x.numpy(),
        node_labels=tiny.data.y.numpy(),
        edges=tiny.data.edge_index.T.numpy(),
        **masks,
    )
    return path


def words_of(npz: Path, out: Path) -> list[str]:
    """A run with all that has a state: Adam, a running mean, a choice, and many checkpoints."""
    settings = {
        "model.hidden": 8,
        "train.estimator": "reinforce",
        "train.evaluate_every": 2,
        "train.samples": 2,
        "train.checkpoint_seconds": 0,
        "train.learning_rate": 0.05,
        "predict.samples": 3,
    }
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    options = ["--dataset", str(npz), "--method", "GCN-BBGDC", "--epochs", str(EPOCHS)]
    return [*options, *sets, "--out", str(out), "--resume"]


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if key != "seconds"}
    return value


def traces(folder: Path) -> dict[str, object]:
    """All that a finished run has left, times aside."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    tensors, header = records.read_tensors(folder / checkpoint.LAST)
    return {
        "metrics": [without_times(json.loads(line)) for line in lines],
        "result": without_times(json.loads((folder / "result.json").read_text())),
        "selected": (folder / checkpoint.BEST).read_bytes(),
        "last": {name: tensor.numpy().tobytes() for name, tensor in tensors.items()},
        "header": without_times(header),
        "config": (folder / "config.toml").read_text(),
        "files": sorted(path.name for path in folder.iterdir()),
    }


def kill_at_random_moments(killable: Killable, npz: Path, folder: Path, kills: int) -> None:
    unbroken = folder / "unbroken"
    started = time.monotonic()
    assert killable.wait(killable.start(*words_of(npz, unbroken))) == 0
    duration = time.monotonic() - started
    expected = traces(unbroken)
    assert len(expected["metrics"]) == EPOCHS

    moments = random.Random(0)
    killed, runs, reached = 0, 0, set()
    # not all in the same place: where chance has it so, on a busy machine, there are more kills
    while killed < kills or len(reached) < 2:
        # A run that gets to its end between two kills is compared, and the next one begins.
        out = folder / f"run{runs}"
        process = killable.start(*words_of(npz, out))
        time.sleep(moments.uniform(0.0, 0.6 * duration))
        os.kill(process, signal.SIGKILL)
        code = killable.wait(process)
        if code == -signal.SIGKILL:
            killed += 1
            last = out / checkpoint.LAST
            reached.add(records.read_tensors(last)[1]["epoch"] if last.exists() else 0)
        else:
            assert code == 0
            assert traces(out) == expected
            runs += 1
    out = folder / f"run{runs}"
    assert killable.wait(killable.start(*words_of(npz, out))) == 0
    assert traces(out) == expected
    assert len(reached) > 1


def test_a_run_killed_five_times_ends_with_the_same_bits(killable, npz, tmp_path):
    kill_at_random_moments(killable, npz, tmp_path, kills=5)


@pytest.mark.slow
def test_a_run_killed_twenty_times_ends_with_the_same_bits(killable, npz, tmp_path):
    kill_at_random_moments(killable, npz, tmp_path, kills=20)


class PowerCutError(BaseException):
    """Stands for the end of a process at one precise moment."""


@pytest.fixture
def interruptions(monkeypatch):
    """Let the n-th call that touches the disk be the last one."""

    def interrupt_at(count: int) -> None:
        calls = iter(range(1, count + 1))
        for owner, name in ((os, "fsync"), (Path, "replace")):
            original = getattr(owner, name)

            def counted(*arguments, original=original):
                if next(calls, None) is None:
                    raise PowerCutError
                return original(*arguments)

            monkeypatch.setattr(owner, name, counted)

    return interrupt_at


@pytest.fixture(scope="module")
def unbroken(tiny, settings_of, tmp_path_factory):
    """The settings of a short run with a checkpoint after every epoch, and its traces."""
    train = {"epochs": 4, "evaluate_every": 2, "samples": 2, "average": 0.5}
    train |= {"checkpoint_seconds": 0.0}
    config = settings_of(train=train)
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    Trainer(config, tiny, folder, progress=Silent()).fit()
    return config, traces(folder)


@pytest.mark.parametrize("count", range(0, 43, 3))
def test_a_run_cut_off_at_any_access_to_the_disk_ends_with_the_same_bits(
    tiny, unbroken, interruptions, monkeypatch, tmp_path, count
):
    config, expected = unbroken
    out = tmp_path / "run"
    interruptions(count)
    with pytest.raises(PowerCutError):
        Trainer(config, tiny, out, progress=Silent()).fit()
    monkeypatch.undo()
    Trainer(config, tiny, out, resume=True, progress=Silent()).fit()
    found = traces(out)
    found["files"] = [name for name in found["files"] if not name.startswith((".", "new-"))]
    assert found == expected
