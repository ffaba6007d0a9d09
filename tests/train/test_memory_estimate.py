"""The memory of a run is estimated before it begins; a run that cannot fit is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from graphdrop import load_dataset
from graphdrop.config import Config
from graphdrop.train import Trainer, memory_estimate
from graphdrop.train.progress import Progress, Silent

MEASURE = """
import sys, torch
from torch_geometric.data import Data
from graphdrop.config import Config
from graphdrop.train import Trainer
from graphdrop.train.memory_estimate import estimate_memory
from graphdrop.train.progress import Silent

nodes, width = int(sys.argv[1]), int(sys.argv[2])
ends = torch.randint(0, nodes, (2, 10 * nodes))
data = Data(x=torch.randn(nodes, width), edge_index=torch.cat([ends, ends.flip(0)], 1))
data.y, part = torch.randint(0, 8, (nodes,)), torch.rand(nodes)
data.train_mask, data.val_mask, data.test_mask = part < 0.1, part > 0.95, abs(part - 0.85) < 0.05
model, train = {"hidden": width, "layers": 3}, {"epochs": 1, "samples": 2}
config = Config(recipe="paper", model=model, train=train, predict={"samples": 2})
trainer = Trainer(config, data, progress=Silent())

def bytes_of(name):
    return int(open("/proc/self/status").read().split(name + ":")[1].split()[0]) << 10

open("/proc/self/clear_refs", "w").write("5")  # the peak begins here
before, estimate = bytes_of("VmRSS"), estimate_memory(trainer.run)
trainer.fit()
print(sum(estimate.values()), bytes_of("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="it reads Linux's peak")
def test_the_estimate_is_near_the_measured_peak() -> None:
    command = [sys.executable, "-W", "ignore", "-c", MEASURE, "30000", "32"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    estimate, peak = map(int, done.stdout.split()[-2:])
    assert 0.5 < estimate / peak < 2.0


class Noted(Progress):
    """Keeps what is said."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def note(self, text: str) -> None:
        """Keep it."""
        self.said.append(text)


def test_a_run_that_does_not_fit_says_what_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config(
        data={"dataset": "synthetic"},
        model={"method": "GCN-BBGDC", "hidden": 8},
        train={"epochs": 1, "samples": 2},
        predict={"samples": 2},
        recipe="paper",
    )
    data, progress = load_dataset("synthetic"), Noted()
    monkeypatch.setattr(memory_estimate, "SHOWN_BYTES", 0)
    Trainer(config, data, progress=progress).fit()
    (line,) = (said for said in progress.said if said.startswith("needs about"))
    assert line.endswith(" free")
    monkeypatch.setattr(memory_estimate, "free_bytes", lambda: 1 << 20)
    with pytest.raises(ValueError, match=r"needs about .* 1\.0 MiB are free: .*model\.hidden"):
        Trainer(config, data, progress=Silent()).fit()
    monkeypatch.setenv(memory_estimate.VARIABLE, "off")
    assert Trainer(config, data, progress=Silent()).fit().epochs == 1
