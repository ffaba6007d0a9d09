"""A training step on Cora on a busy machine: as many processes that compute as there are cores.

The steps run in a process of their own, as a user has it: torch imported first, none of OpenMP's
variables set. PyG's steps take turns with ours in it, so they gain from what the package does about
waiting threads; a process with PyG alone is slower than the figure here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg_nn

from graphdrop import load_dataset
from graphdrop.nn import GCN
from graphdrop.sampling.rates import BetaBernoulliRate
from graphdrop.sampling.samplers import GraphDropConnect
from table import Report, Row

LAYERS, HIDDEN = 4, 128
STEPS, WARM_UP = 50, 10
OPENMP = ("OMP_", "GOMP_", "KMP_", "MKL_", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER")
SPIN = "import numpy\nx = numpy.random.rand(1000)\nwhile True: x = numpy.sqrt(x)"


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Within it, so many processes compute and do nothing else."""
    started = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(processes)]
    try:
        time.sleep(1.0)
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def steps() -> dict[str, Callable[[], None]]:
    """A training step of ours and of PyG."""
    data = load_dataset("cora").data
    rows = data.train_mask.nonzero().flatten()
    labels = data.y[rows]
    sizes = (data.x.shape[1], HIDDEN, LAYERS, int(data.y.max()) + 1)
    ours = GCN(*sizes, GraphDropConnect(BetaBernoulliRate(), blocks=2))
    pyg = pyg_nn.GCN(*sizes, dropout=0.5, cached=True)

    def step(model: nn.Module, run: Callable[[], Tensor]) -> Callable[[], None]:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.005, fused=True)

        def once() -> None:
            optimizer.zero_grad()
            nn.functional.cross_entropy(run(), labels).backward()
            optimizer.step()

        return once

    return {
        "PyG": step(pyg, lambda: pyg(data.x, data.edge_index)[rows]),
        "ours": step(ours, lambda: ours(data.x, data.edge_index, rows=rows)),
    }


def medians(functions: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Milliseconds of each, which take turns; the first turns warm up."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(WARM_UP + STEPS):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: median(all_of[WARM_UP:]) for name, all_of in times.items()}


def measure() -> None:
    """Print the medians on the machine as it is and on a busy one."""
    functions = steps()
    as_it_is = medians(functions)
    with busy(os.cpu_count() or 1):
        print(json.dumps([as_it_is, medians(functions)]))


def main() -> bool:
    cores = os.cpu_count() or 1
    report = Report("busy", f"A training step on Cora beside {cores} busy processes, {cores} cores")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(OPENMP)}
    result = subprocess.run(
        [sys.executable, __file__, "measure"], check=True, stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parent, env=environment,
    )  # fmt: skip
    before, loaded = json.loads(result.stdout)
    for name in loaded:
        note = f"{before[name]:.3g} ms before"
        report.add(Row(f"{name}, median of {STEPS}, ms", loaded[name], note=note))
        report.add(Row(f"{name}, times slower than before", loaded[name] / before[name]))
    report.add(Row("ours / PyG", loaded["ours"] / loaded["PyG"], 0.3))
    return report.finish()


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        measure()
    else:
        raise SystemExit(not main())
