"""Many fits and predictions in one process: `python -m torture.endurance --fits 1000`.

Memory, threads and open files are counted after the first tenth, when caches are filled, and at the
end. Memory is the smallest of several readings: what the allocator holds for a moment is no growth.
"""

import argparse
import gc
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import torch

from graphdrop import Config, Trainer, load, load_dataset, predict
from graphdrop.data.synthetic import synthetic_graph
from graphdrop.train.progress import Silent

METHODS = ("GCN-BBGDC", "GCN-DO", "GCN-DE", "GAT-BBGDC")


def one(number: int, folder: Path) -> None:
    """Train, write, load, predict and forget, on a graph of its own."""
    graph = synthetic_graph(80, 3, num_features=30, words_per_node=6.0, seed=number % 7)
    data = load_dataset(graph.data, split="random-fractions")
    method = METHODS[number % len(METHODS)]
    batches = {"batch_size": 16, "fan_out": "3,3"} if number % 3 == 0 else {}
    config = Config(
        recipe="paper",
        data={"dataset": "data"},
        seed=number,
        model={"method": method, "hidden": 8, "layers": 2},
        train={"epochs": 2, "evaluate_every": 1, "samples": 2, **batches},
        predict={"samples": 2},
    )
    run = folder / "run"
    Trainer(config, data, run, progress=Silent()).fit()
    predict(load(run), data.data)
    for path in run.iterdir():
        path.unlink()


def state() -> dict[str, int]:
    """Resident bytes, threads of Python and of the system, open files."""
    gc.collect()
    pages = []
    for _ in range(5):
        pages.append(int(Path("/proc/self/statm").read_text().split()[1]))
        time.sleep(0.02)
    return {
        "kilobytes": min(pages) * os.sysconf("SC_PAGE_SIZE") // 1024,
        "python_threads": threading.active_count(),
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=1000)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    states = []
    with tempfile.TemporaryDirectory() as folder:
        warm = max(30, options.fits // 10)
        for number in range(options.fits + warm):
            if number == warm:
                states.append(state())
            one(number, Path(folder))
        states.append(state())
    growth = states[1]["kilobytes"] / states[0]["kilobytes"] - 1.0
    found = {
        "fits": options.fits,
        "before": states[0],
        "after": states[1],
        "growth": round(growth, 5),
    }
    print(json.dumps(found))
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(found, indent=1) + "\n")
    left = any(states[1][what] > states[0][what] for what in ("python_threads", "threads", "files"))
    sys.exit(1 if growth >= 0.01 or left else 0)


if __name__ == "__main__":
    main()
