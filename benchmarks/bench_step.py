"""A whole training step of a 4-layer, 128-wide GCN on Cora: against PyG and a dense peer."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.profiler import profile
from torch_geometric import nn as pyg_nn
from torch_geometric.nn import GCNConv
from torch_geometric.utils import dropout_edge

from dense import DenseDropConnect
from graphdrop import load_dataset
from graphdrop.graph import Graph
from graphdrop.nn import GCN
from graphdrop.sampling.estimators import Concrete
from graphdrop.sampling.rates import BetaBernoulliRate, FixedRate
from graphdrop.sampling.samplers import DropEdge, DropOut, GraphDropConnect
from table import Report, Row
from timing import best_of

LAYERS, HIDDEN = 4, 128


class SparseFirst(nn.Module):
    """PyG's layers with the first product done sparsely, DropOut on hidden layers only."""

    def __init__(self, features: int, classes: int, x: Tensor) -> None:
        super().__init__()
        self.x = x.to_sparse_csr()
        self.first = nn.Parameter(nn.init.xavier_uniform_(torch.empty(features, HIDDEN)))
        sizes = [HIDDEN] * (LAYERS - 1) + [classes]
        self.start = GCNConv(HIDDEN, HIDDEN, cached=True)
        self.rest = nn.ModuleList(GCNConv(a, b, cached=True) for a, b in itertools.pairwise(sizes))

    def forward(self, _x: Tensor, edge_index: Tensor) -> Tensor:
        self.start.lin = nn.Identity()
        h = torch.relu(self.start(self.x @ self.first, edge_index))
        for number, conv in enumerate(self.rest):
            h = conv(nn.functional.dropout(h, 0.5), edge_index)
            h = torch.relu(h) if number + 1 < len(self.rest) else h
        return h


def step(model: nn.Module, run: Callable[[], Tensor], labels: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005, fused=True)

    def once() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(run(), labels).backward()
        optimizer.step()

    return once


def main() -> bool:
    data = load_dataset("cora").data
    rows = data.train_mask.nonzero().flatten()
    labels = data.y[rows]
    features, classes = data.x.shape[1], int(data.y.max()) + 1
    report = Report("step", f"A training step on Cora, {LAYERS} layers of {HIDDEN}, 2 threads")

    def pyg(edge_dropout: float = 0.0) -> Callable[[], None]:
        model = pyg_nn.GCN(features, HIDDEN, LAYERS, classes, dropout=0.5, cached=not edge_dropout)

        def run() -> Tensor:
            edges = (
                dropout_edge(data.edge_index, edge_dropout)[0] if edge_dropout else data.edge_index
            )
            return model(data.x, edges)[rows]

        return step(model, run, labels)

    def ours(sampler: object, temperature: float | None = None) -> Callable[[], None]:
        estimator = None if temperature is None else Concrete(temperature)
        model = GCN(features, HIDDEN, LAYERS, classes, sampler, estimator=estimator)
        return step(model, lambda: model(data.x, data.edge_index, rows=rows), labels)

    sparse = SparseFirst(features, classes, data.x)
    functions = {
        "PyG": pyg(),
        "PyG with dropout_edge": pyg(0.5),
        "PyG, sparse first product": step(
            sparse, lambda: sparse(data.x, data.edge_index)[rows], labels
        ),
        "masks off": ours(None),
        "hard, 2 blocks": ours(GraphDropConnect(FixedRate(keep=0.5), blocks=2)),
        "concrete, 2 blocks": ours(GraphDropConnect(BetaBernoulliRate(), blocks=2), 0.67),
        "concrete, 16 blocks": ours(GraphDropConnect(BetaBernoulliRate(), blocks=16), 0.67),
        "hard per feature": ours(GraphDropConnect(FixedRate(keep=0.5), blocks=None)),
        "concrete per feature": ours(GraphDropConnect(BetaBernoulliRate(), blocks=None), 0.67),
        "DropEdge": ours(DropEdge(FixedRate(keep=0.5))),
        "DropOut": ours(DropOut(FixedRate(keep=0.5))),
    }
    best = best_of(functions, repeats=20)
    for name in ("PyG", "PyG with dropout_edge", "PyG, sparse first product"):
        report.add(Row(f"{name}, ms", 1e3 * best[name]))
    limits = {
        "hard, 2 blocks": 0.2,
        "concrete, 2 blocks": 0.2,
        "hard per feature": 0.3,
        "concrete per feature": 0.3,
    }
    for name in list(functions)[3:]:
        note = f"{1e3 * best[name]:.3g} ms"
        report.add(
            Row(f"ours, {name} / PyG", best[name] / best["PyG"], limits.get(name), note=note)
        )
        if name in limits:
            ratio = best[name] / best["PyG with dropout_edge"]
            report.add(Row(f"ours, {name} / PyG with dropout_edge", ratio, limits[name]))
    dense(report, data, 2, best["concrete, 2 blocks"])
    dense(report, data, 16, best["concrete, 16 blocks"])
    return report.finish()


def dense(report: Report, data: object, blocks: int, ours: float) -> None:
    graph = Graph.from_edge_index(data.edge_index, data.num_nodes)
    nodes = data.num_nodes
    adjacency = torch.zeros(nodes, nodes)
    adjacency[graph.edge_dst.long(), graph.indices.long()] = graph.value
    classes = int(data.y.max()) + 1
    model = DenseDropConnect(
        adjacency, [data.x.shape[1], HIDDEN, HIDDEN, HIDDEN, classes], blocks, 0.67
    )
    rows = data.train_mask.nonzero().flatten()
    once = step(model, lambda: model(data.x)[rows], data.y[rows])
    once()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        once()
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    with profile() as trace:
        once()
    wall = time.perf_counter() - start
    inside = sum(e.self_cpu_time_total for e in trace.key_averages() if e.key.startswith("aten::"))
    note = f"dense {min(times):.3g} s, ours {1e3 * ours:.3g} ms"
    report.add(
        Row(
            f"dense n-by-n masks / ours, {blocks} blocks, concrete",
            min(times) / ours,
            300.0,
            True,
            note,
        )
    )
    report.add(
        Row(
            f"share of that dense step inside torch's operators, {blocks} blocks",
            inside / 1e6 / wall,
            0.8,
            True,
        )
    )


if __name__ == "__main__":
    torch.set_num_threads(2)
    raise SystemExit(not main())
