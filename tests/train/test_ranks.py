"""Ranks of torchrun take the steps of one rank, and a run whose rank was killed ends like any."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from contracts import two_ranks
from contracts.two_ranks import METHODS

SCRIPT = Path(__file__).parents[1] / "contracts" / "two_ranks.py"
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def torchrun(*words: object, ranks: int = 2) -> list[str]:
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    return [sys.executable, *launch, *map(str, words)]


def test_two_ranks_take_the_steps_of_one(tmp_path: Path) -> None:
    # 48 nodes: 3 batches of 20 for one rank, 5 of 10 for two; in the last step one has none
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(torchrun(SCRIPT, tmp_path), env=ENVIRONMENT, **pipes)
    two_ranks.main(tmp_path)  # one rank, in this process, while two are at it
    said, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "rank 0" in said
    assert "rank 1" not in said
    for method in METHODS:
        one, two = (torch.load(tmp_path / f"{method}-{size}.pt") for size in (1, 2))
        assert int(one["steps"]) == int(two["steps"]) == 3
        if method.startswith("SAGE"):
            continue  # BatchNorm has other statistics in smaller batches; that it runs is enough
        torch.testing.assert_close(two["gradients"], one["gradients"], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(two["nll"], one["nll"], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(two["weights"], one["weights"], rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(two["scores"], one["scores"], rtol=1e-3, atol=1e-4)


def test_full_batch_is_refused_for_several_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphdrop import Config, Trainer  # noqa: PLC0415
    from graphdrop.train import run  # noqa: PLC0415

    class Two(run.Ranks):
        def __init__(self) -> None:
            super().__init__()
            self.size = 2

        def broadcast(self, value: object) -> object:
            return value

    monkeypatch.setattr(run, "Ranks", Two)
    config = Config(data={"dataset": "synthetic"}, recipe="paper")
    with pytest.raises(ValueError, match="2 ranks; ranks divide mini-batches"):
        Trainer(config)


def workers_of(process: int) -> list[int]:
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in children]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the ranks in /proc")
def test_a_run_whose_rank_was_killed_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    words = (
        "-m", "graphdrop", "train", "--dataset", "synthetic", "--recipe", "paper",
        "--epochs", 12, "--batch-size", 32, "--fan-out", "4,3", "--set", "train.samples=2",
        "--set", "train.checkpoint_seconds=0", "--set", "predict.samples=2",
        "--set", "train.evaluate_every=2",
    )  # fmt: skip
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    command = torchrun("--max-restarts=1", *words, "--out", cut)
    with (tmp_path / "log").open("w") as log:
        run = subprocess.Popen(command, env=ENVIRONMENT, stdout=log, stderr=log)
        journal = cut / "last.safetensors"
        deadline = time.monotonic() + 300
        while not journal.exists() and time.monotonic() < deadline:
            assert run.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.02)
        victim = workers_of(run.pid)[-1]
        os.kill(victim, signal.SIGKILL)
        assert run.wait(timeout=400) == 0, (tmp_path / "log").read_text()
    unbroken = torchrun(*words, "--out", whole)
    subprocess.run(unbroken, env=ENVIRONMENT, check=True, capture_output=True, timeout=400)
    results = [json.loads((folder / "result.json").read_text()) for folder in (whole, cut)]
    for result in results:
        for name in ("seconds", "versions"):
            result.pop(name, None)
    assert results[0]["test"] == results[1]["test"]
    assert results[0]["selected_epoch"] == results[1]["selected_epoch"]
    lines = [
        [json.loads(text) for text in (folder / "metrics.jsonl").read_text().splitlines()]
        for folder in (whole, cut)
    ]
    for line in (*lines[0], *lines[1]):
        line.pop("seconds")
    assert lines[0] == lines[1]
    assert len(lines[0]) == 12
