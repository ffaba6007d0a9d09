"""Memory: what a mask adds on Cora, by counting allocations, and a step over 20 million edges."""

from __future__ import annotations

import resource
import subprocess
import sys
import tracemalloc
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from graphdrop import load_dataset
from graphdrop.nn import GCN
from graphdrop.sampling.rates import BetaBernoulliRate
from graphdrop.sampling.samplers import GraphDropConnect
from table import Report, Row


def allocated(model: GCN, data: object, rows: torch.Tensor) -> float:
    """MiB that one step allocates in torch and numpy, everything counted, nothing subtracted."""

    def step() -> None:
        model.zero_grad(set_to_none=True)
        out = model(data.x, data.edge_index, rows=rows)
        torch.nn.functional.cross_entropy(out, data.y[rows]).backward()

    step()
    tracemalloc.start()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as trace:
        step()
    numpy_peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    torch_bytes = sum(
        event.self_cpu_memory_usage
        for event in trace.key_averages()
        if event.self_cpu_memory_usage > 0
    )
    return (torch_bytes + numpy_peak) / 2**20


def large() -> float:
    """GiB of peak resident memory of a 2-layer step: 1M nodes, 20M edges, a mask per feature."""
    nodes, edges, width = 1_000_000, 20_000_000, 128
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(0, nodes, (2, edges), generator=generator)
    x = torch.randn(nodes, width, generator=generator)
    labels = torch.randint(0, 16, (nodes,), generator=generator)
    sampler = GraphDropConnect(BetaBernoulliRate(), blocks=None, first_blocks=None)
    model = GCN(width, width, 2, 16, sampler)
    optimizer = torch.optim.Adam(model.parameters())
    torch.nn.functional.cross_entropy(model(x, index), labels).backward()
    optimizer.step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> bool:
    report = Report("memory", "Memory")
    data = load_dataset("cora").data
    rows = data.train_mask.nonzero().flatten()
    sizes = {}
    for name, sampler in (
        ("masks off", None),
        ("mask per feature", GraphDropConnect(BetaBernoulliRate(), blocks=None)),
    ):
        torch.manual_seed(0)
        sizes[name] = allocated(GCN(data.x.shape[1], 128, 4, 7, sampler), data, rows)
    extra = sizes["mask per feature"] - sizes["masks off"]
    note = f"{sizes['masks off']:.3g} MiB without"
    report.add(Row("Cora, 4 layers: MiB a mask per feature adds to a step", extra, 1.0, note=note))
    result = subprocess.run(
        [sys.executable, __file__, "large"], check=True, capture_output=True, text=True,
        cwd=Path(__file__).parent,
    )  # fmt: skip
    report.add(Row("20M edges, mask per feature, 2 layers: peak GiB", float(result.stdout), 8.0))
    return report.finish()


if __name__ == "__main__":
    torch.set_num_threads(2)
    if sys.argv[1:] == ["large"]:
        print(large())
    else:
        raise SystemExit(not main())
