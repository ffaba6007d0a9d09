"""Large graphs in little memory: a full-batch step, layer-wise prediction, features on disk.

    python benchmarks/bench_scale_memory.py [step layerwise kernel features] [--quick]

Every figure is measured in a process of its own. ``--quick`` takes a fiftieth of the size, to see
that it runs, and writes no results; else a part's figures replace those of an earlier run. Stores
are written to ``--folder``, by default a temporary one.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from torch_geometric import nn as pyg
from torch_geometric.data import Data

from graphdrop import GCN, BetaBernoulliRate, Graph, GraphDropConnect, load_dataset, predict
from graphdrop.data.store import write_store
from graphdrop.graph.masks import Kind, Mask, stream_key
from graphdrop.kernels import aggregate
from table import Report, Row
from timing import best_of

GIB = 2**30
CLASSES = 16


def random_graph(nodes: int, edges: int) -> torch.Tensor:
    """Both directions of random pairs, ``[2, edges]``."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, nodes, (2, edges // 2), generator=generator)
    return torch.cat([ends, ends.flip(0)], 1)


def labels_of(nodes: int) -> torch.Tensor:
    return torch.randint(0, CLASSES, (nodes,), generator=torch.Generator().manual_seed(1))


def network(inputs: int, width: int, layers: int = 3) -> GCN:
    """GCN-BBGDC with masks for two blocks of features."""
    return GCN(inputs, width, layers, CLASSES, GraphDropConnect(BetaBernoulliRate(), blocks=2))


def anonymous() -> int:
    """Bytes of this process that no file backs."""
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) << 10


@contextmanager
def highest_anonymous(found: list[int]) -> Any:
    """Append the highest RssAnon of what runs inside."""
    highest, done = [anonymous()], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            highest.append(anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        found.append(max(highest))


# Children: each prints one line of JSON


def step_memory(nodes: int, edges: int, width: int) -> dict[str, float]:
    """Peak of a full-batch step, from the list of edges to the update of the weights."""
    index, x, labels = random_graph(nodes, edges), torch.randn(nodes, width), labels_of(nodes)
    model = network(width, width)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        cross_entropy(model(x, index), labels).backward()
        optimizer.step()
    return {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def step_time(nodes: int, edges: int, width: int) -> dict[str, float]:
    """The same step beside PyG's GCN on ``torch.sparse`` CSR without masks, in turns."""
    index, x, labels = random_graph(nodes, edges), torch.randn(nodes, width), labels_of(nodes)
    ours, theirs = network(width, width), pyg.GCN(width, width, 3, CLASSES, normalize=False)
    graph = Graph.from_edge_index(index, nodes)
    matrix = torch.sparse_csr_tensor(
        graph.indptr.long(), graph.indices.long(), graph.value, (nodes, nodes)
    )

    def step(model: Any, edges: Any) -> Callable[[], None]:
        optimizer = torch.optim.Adam(model.parameters())

        def run() -> None:
            optimizer.zero_grad()
            cross_entropy(model(x, edges), labels).backward()
            optimizer.step()

        return run

    return best_of({"ours": step(ours, graph), "PyG": step(theirs, matrix)}, 3, 0.0)


def make_store(folder: str, nodes: int, edges: int, width: int) -> dict[str, float]:
    """Write a store; large features are one row again and again, which takes no memory here."""
    big = 4 * nodes * width > 2 * GIB
    part = torch.rand(nodes, generator=torch.Generator().manual_seed(2))
    masks = {"train_mask": part < 0.1, "val_mask": part > 0.95, "test_mask": abs(part - 0.9) < 0.05}
    masks["val_mask"] &= ~masks["test_mask"]
    rows = np.random.default_rng(0).standard_normal((1 if big else nodes, width), dtype=np.float32)
    x = np.broadcast_to(rows, (nodes, width))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an array that is read-only
        data = Data(x=torch.from_numpy(x), edge_index=random_graph(nodes, edges))
    data.y = labels_of(nodes)
    for name, mask in masks.items():
        data[name] = mask
    start = time.perf_counter()
    write_store(folder, data, CLASSES)
    return {"seconds": time.perf_counter() - start}


def layerwise(folder: str, width: int, samples: int, hidden: str) -> dict[str, float]:
    """Anonymous memory and time of layer-wise prediction; its time over one expected pass."""
    start = time.perf_counter()
    data = load_dataset(folder).data
    opened = time.perf_counter() - start
    model, found = network(data.x.shape[1], width), list[int]()
    states = folder if hidden == "disk" else None
    where = {"layerwise": True, "folder": None if states is None else str(Path(states).parent)}
    predict(model, data, 1, **where)  # kernels are compiled, pages read
    with highest_anonymous(found):
        times = best_of(
            {
                "sampled": lambda: predict(model, data, samples, **where),
                "one": lambda: predict(model, data, 0, **where),
            },
            2,
            0.0,
        )
    return {"opened": opened, "anonymous": found[0] / GIB, **times}


def kernel(nodes: int, edges: int, width: int) -> dict[str, float]:
    """Seconds per edge of one masked sum, and the peak with the sorting of the edges."""
    graph = Graph.from_edge_index(random_graph(nodes, edges), nodes, normalization="row")
    x, mask = torch.randn(nodes, width), Mask(Kind.HARD, torch.tensor(1.0), stream_key(0, 0, 0, 0))
    seconds = best_of({"sum": lambda: aggregate(graph, x, mask)}, 3, 0.0)["sum"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"seconds": seconds / graph.num_edges, "peak": peak}


def features(folder: str, width: int, train: int) -> dict[str, float]:
    """A mini-batch epoch with features that are read from disk."""
    from graphdrop.loading import NeighborLoader  # noqa: PLC0415

    data = load_dataset(folder).data
    nodes = data.train_mask.nonzero().flatten()[:train]
    loader = NeighborLoader(data, [10, 5], nodes, batch_size=1024, shuffle=True)
    model, found, read = network(data.x.shape[1], width, 2), list[int](), 0
    optimizer = torch.optim.Adam(model.parameters())
    start = time.perf_counter()
    with highest_anonymous(found):
        for batch in loader:
            with model.batch(batch):
                out = model(batch.x, batch.edge_index)
            optimizer.zero_grad()
            cross_entropy(out, batch.y[: batch.batch_size]).backward()
            optimizer.step()
            read += batch.x.nbytes
    size = data.x.nbytes / 1e9
    seconds = time.perf_counter() - start
    return {"anonymous": found[0] / GIB, "seconds": seconds, "size": size, "read": read / 1e9}


CHILDREN = {
    f.__name__: f for f in (step_memory, step_time, make_store, layerwise, kernel, features)
}


def child(name: str, *arguments: Any) -> dict[str, float]:
    """Run a function in a process of its own."""
    command = [sys.executable, __file__, "--child", name, *map(str, arguments)]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=Path(__file__).parent
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


# Figures


def add_step(report: Report, scale: int, _folder: Path) -> None:
    size = 1_000_000 // scale, 20_000_000 // scale, 128
    report.add(Row("full-batch BBGDC step: peak GiB", child("step_memory", *size)["peak"], 12.0))
    times = child("step_time", *size)
    note = f"{times['ours']:.3g} s; PyG's GCN, torch.sparse CSR, no masks: {times['PyG']:.3g} s"
    report.add(Row("its time over PyG's", times["ours"] / times["PyG"], 0.8, note=note))


def add_layerwise(report: Report, scale: int, folder: Path) -> None:
    store = folder / "layerwise"
    made = child("make_store", store, 1_000_000 // scale, 20_000_000 // scale, 128)
    for hidden in ("memory", "disk"):
        found = child("layerwise", store, 128, 10, hidden)
        what = f"layer-wise, 10 samples, states in {'files' if hidden == 'disk' else 'memory'}"
        note = f"{found['sampled']:.3g} s"
        report.add(Row(f"{what}: RssAnon GiB", found["anonymous"], 6.0, note=note))
        note = f"one pass takes {found['one']:.3g} s"
        ratio = found["sampled"] / found["one"]
        report.add(Row(f"{what}: time over one pass", ratio, 8.0, note=note))
    note = f"written in {made['seconds']:.3g} s"
    report.add(Row("opening the store: seconds", found["opened"], 2.0, note=note))
    shutil.rmtree(store)


def add_kernel(report: Report, scale: int, _folder: Path) -> None:
    small = child("kernel", 1_000_000 // scale, 20_000_000 // scale, 128)
    large = child("kernel", 5_000_000 // scale, 100_000_000 // scale, 128)
    report.add(Row("100M edges: peak GiB", large["peak"], 16.0))
    note = f"{large['seconds'] * 1e9:.3g} and {small['seconds'] * 1e9:.3g} ns"
    ratio = large["seconds"] / small["seconds"]
    report.add(Row("time per edge over that at 20M", ratio, 2.0, note=note))


def add_features(report: Report, scale: int, folder: Path) -> None:
    store = folder / "features"
    child("make_store", store, 7_500_000 // scale, 60_000_000 // scale, 1000)
    found = child("features", store, 128, 100_000 // scale)
    note = (
        f"{found['size']:.3g} GB on disk, {found['read']:.3g} GB read in {found['seconds']:.3g} s"
    )
    report.add(Row("mini-batch epoch: RssAnon GiB", found["anonymous"], 8.0, note=note))
    shutil.rmtree(store)


FIGURES = {
    "step": add_step,
    "layerwise": add_layerwise,
    "kernel": add_kernel,
    "features": add_features,
}


def main(
    parts: tuple[str, ...] = tuple(FIGURES), *, quick: bool = False, folder: Path | None = None
) -> bool:
    reached = True
    with tempfile.TemporaryDirectory(dir=folder) as stores:
        for part in parts:
            report = Report("scale_memory", f"Large graphs in little memory: {part}", part=part)
            FIGURES[part](report, 50 if quick else 1, Path(stores))
            reached &= report.finish(write=not quick)
    return reached


if __name__ == "__main__":
    torch.set_num_threads(2)
    if sys.argv[1:2] == ["--child"]:
        name, *given = sys.argv[2:]
        print(json.dumps(CHILDREN[name](*(int(a) if a.isdigit() else a for a in given))))
        sys.exit(0)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*FIGURES, []], default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    sys.exit(not main(tuple(asked.parts) or tuple(FIGURES), quick=asked.quick, folder=asked.folder))
