"""On a GPU: masked sums, training steps and predictions, against PyG on the same device.

    python benchmarks/bench_gpu.py

Without a GPU it says so and exits 0. No figure of it is committed: nobody has run it on a GPU yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg_nn
from torch_geometric.data import Data

from graphdrop import GCN, BetaBernoulliRate, FixedRate, GraphDropConnect, predict
from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, stream_key
from graphdrop.kernels import aggregate
from table import Report, Row

FEATURES, CLASSES, HIDDEN, LAYERS, SAMPLES = 128, 40, 128, 3, 20
SIZES = {"in cache": (2_708, 13_264), "like ogbn-arxiv": (169_343, 2_315_598)}
REPEATS = 20


def measured(functions: Mapping[str, Callable[[], object]]) -> dict[str, tuple[float, float]]:
    """Best seconds and largest memory in MiB of each, warmed up, in turns."""
    best, memory = dict.fromkeys(functions, float("inf")), dict.fromkeys(functions, 0.0)
    for function in functions.values():
        for _ in range(3):
            function()
    for _ in range(REPEATS):
        for name, function in functions.items():
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            start = time.perf_counter()
            function()
            torch.cuda.synchronize()
            best[name] = min(best[name], time.perf_counter() - start)
            memory[name] = (torch.cuda.max_memory_allocated() - before) / 2**20
    return {name: (best[name], memory[name]) for name in functions}


def add(report: Report, what: str, found: Mapping[str, tuple[float, float]], base: str) -> None:
    """A row for each: its time over that of the base."""
    for name, (seconds, memory) in found.items():
        note = f"{1e3 * seconds:.3g} ms, {memory:.0f} MiB"
        report.add(Row(f"{what}: {name} / {base}", seconds / found[base][0], note=note))


def random_data(nodes: int, edges: int) -> Data:
    generator = torch.Generator().manual_seed(0)
    ends = (nodes * torch.rand(2, edges, generator=generator) ** 2).long()  # a few hubs
    data = Data(x=torch.randn(nodes, FEATURES, generator=generator), edge_index=ends)
    data.y = torch.randint(0, CLASSES, (nodes,), generator=generator)
    return data.to("cuda")


def kernels(report: Report, name: str, data: Data) -> None:
    graph = Graph.from_edge_index(data.edge_index, data.num_nodes)
    x, gradient = data.x.clone().requires_grad_(), torch.randn_like(data.x)
    source, destination = graph.indices.long(), graph.edge_dst.long()

    def gather_and_add() -> Tensor:
        messages = x[source] * graph.value[:, None]
        return torch.zeros_like(x).index_add_(0, destination, messages)

    def masked(kind: Kind, blocks: int | None, backend: str = "auto") -> Callable[[], Tensor]:
        logit = torch.tensor(0.5, device="cuda", requires_grad=kind is Kind.CONCRETE)
        mask = Mask(kind, logit, stream_key(0).cuda(), blocks=blocks)
        return lambda: aggregate(graph, x, mask, backend=backend)

    forward: dict[str, Callable[[], Tensor]] = {
        "no mask (cuSPARSE)": lambda: aggregate(graph, x),
        "gather + index_add_": gather_and_add,
        "hard, per edge": masked(Kind.HARD, 1),
        "hard, 2 blocks": masked(Kind.HARD, 2),
        "hard, per feature": masked(Kind.HARD, None),
        "concrete, per feature": masked(Kind.CONCRETE, None),
        "hard, per feature, plain torch": masked(Kind.HARD, None, "reference"),
    }

    def both(run: Callable[[], Tensor]) -> Callable[[], None]:
        def once() -> None:
            x.grad = None
            run().backward(gradient)

        return once

    with torch.no_grad():
        add(report, f"{name}, sum", measured(forward), "no mask (cuSPARSE)")
    passes = {key: both(run) for key, run in forward.items()}
    add(report, f"{name}, sum and gradients", measured(passes), "no mask (cuSPARSE)")


def steps(report: Report, name: str, data: Data) -> None:
    sizes = FEATURES, HIDDEN, LAYERS, CLASSES
    models: dict[str, nn.Module] = {
        "PyG's GCN": pyg_nn.GCN(*sizes, dropout=0.5, cached=True),
        "hard, 2 blocks": GCN(*sizes, GraphDropConnect(FixedRate(keep=0.5), blocks=2)),
        "concrete, 2 blocks": GCN(*sizes, GraphDropConnect(BetaBernoulliRate(), blocks=2)),
        "concrete, per feature": GCN(*sizes, GraphDropConnect(BetaBernoulliRate(), blocks=None)),
    }

    def step(model: nn.Module) -> Callable[[], None]:
        model.to("cuda")
        optimizer = torch.optim.Adam(model.parameters(), fused=True)

        def once() -> None:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(data.x, data.edge_index), data.y)
            loss.backward()
            optimizer.step()

        return once

    add(report, f"{name}, step", measured({n: step(m) for n, m in models.items()}), "PyG's GCN")
    ours, theirs = models["concrete, 2 blocks"].eval(), models["PyG's GCN"].eval()
    with torch.no_grad():
        found = measured(
            {
                "one pass of PyG's GCN": lambda: theirs(data.x, data.edge_index),
                f"{SAMPLES} samples": lambda: predict(ours, data, SAMPLES),
            }
        )
    add(report, f"{name}, prediction", found, "one pass of PyG's GCN")


def main() -> bool:
    if not torch.cuda.is_available():
        print("bench_gpu: torch sees no GPU here (CUDA or ROCm), so nothing was measured.")
        return True
    report = Report("gpu", f"Masked sums and steps on {torch.cuda.get_device_name()}")
    for name, (nodes, edges) in SIZES.items():
        data = random_data(nodes, edges)
        kernels(report, name, data)
        steps(report, name, data)
    return report.finish()


if __name__ == "__main__":
    raise SystemExit(not main())
