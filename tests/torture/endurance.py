"""Many fits and predictions in one process: `python -m torture.endurance --fits 1000`.

Memory, threads and open files are counted after the first tenth, when caches are filled, and at the
end. Memory is the smallest of several readings: what the allocator holds for a moment is no growth.
Beside the resident bytes stand what tells a leak from the allocator: the objects of Python that the
garbage collector knows, its small blocks, and the bytes that malloc has given out.
"""

import argparse
import ctypes
import gc
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import ClassVar

import torch

from graphdrop import Config, Trainer, load, load_dataset, predict
from graphdrop.data.synthetic import synthetic_graph
from graphdrop.train.progress import Silent

METHODS = ("GCN-BBGDC", "GCN-DO", "GCN-DE", "GAT-BBGDC")
READINGS = 10
"""Between the first count and the last, both included."""


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


class _Mallinfo(ctypes.Structure):
    """What glibc's mallinfo2 tells."""

    _fields_: ClassVar = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def malloced() -> int:
    """Bytes that malloc has given out and that were not freed; 0 without glibc."""
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return 0
    mallinfo.restype = _Mallinfo
    found = mallinfo()
    return int(found.uordblks + found.hblkhd)


def state() -> dict[str, int]:
    """Resident bytes, what is alive in them, threads of Python and of the system, open files."""
    gc.collect()
    pages = []
    for _ in range(5):
        pages.append(int(Path("/proc/self/statm").read_text().split()[1]))
        time.sleep(0.02)
    return {
        "kilobytes": min(pages) * os.sysconf("SC_PAGE_SIZE") // 1024,
        "malloc_kilobytes": malloced() // 1024,
        "python_blocks": sys.getallocatedblocks(),
        "python_objects": len(gc.get_objects()),
        "python_threads": threading.active_count(),
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
    }


def kinds() -> Counter[str]:
    """How many objects there are of each type."""
    return Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=1000)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    states, alive = [], Counter[str]()
    warm = max(30, options.fits // 10)
    when = [warm + options.fits * part // (READINGS - 1) for part in range(READINGS)]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.fits + warm + 1):
            if number in when:
                states.append({"fits": number - warm, **state()})
                print(json.dumps(states[-1]), flush=True)
                alive = alive or kinds()
            if number < options.fits + warm:
                one(number, Path(folder))
    first, last = states[0], states[-1]
    growth = last["kilobytes"] / first["kilobytes"] - 1.0
    found = {
        "fits": options.fits,
        "warm_up": warm,
        "before": first,
        "after": last,
        "growth": round(growth, 5),
        "more_objects": dict((kinds() - alive).most_common(10)),
        "readings": states,
    }
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(found, indent=1) + "\n")
    left = any(last[what] > first[what] for what in ("python_threads", "threads", "files"))
    print(f"objects that are more: {found['more_objects']}")
    print(f"resident memory grew by {growth:.2%} in {options.fits} fits")
    sys.exit(1 if growth >= 0.01 or left else 0)


if __name__ == "__main__":
    main()
