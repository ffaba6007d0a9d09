"""The aggregation kernel: against torch's own ways, and what a mask adds to it."""

from __future__ import annotations

import torch
from torch import Tensor

from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, stream_key
from graphdrop.kernels import aggregate, in_huge_pages
from table import Report, Row, processor
from timing import best_of

FEATURES = 128
SMALL = ("in cache", 2_708, 13_264)
MIDDLE = ("100k nodes", 100_000, 2_000_000)
ONE = ("1M edges", 50_000, 1_000_000)
LARGE = ("20M edges", 1_000_000, 20_000_000)


def features(nodes: int) -> Tensor:
    """Random features in huge pages, the same for every peer."""
    return in_huge_pages(torch.randn(nodes, FEATURES))


def random_graph(nodes: int, edges: int) -> Graph:
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(0, nodes, (2, edges), generator=generator)
    return Graph.from_edge_index(index, nodes, normalization="none")


def with_mask(kind: Kind, blocks: int | None) -> Mask:
    logit = torch.tensor(0.5, requires_grad=kind is Kind.CONCRETE)
    return Mask(kind, logit, stream_key(0), blocks=blocks)


def against_torch(
    report: Report, graph: Graph, name: str, csr: float, scatter: float | None
) -> None:
    x = features(graph.num_src)
    matrix = torch.sparse_csr_tensor(
        graph.indptr, graph.indices, graph.value, (graph.num_dst, graph.num_src)
    )
    functions = {"fused": lambda: aggregate(graph, x), "csr": lambda: matrix @ x}
    if scatter is not None:
        source, destination = graph.indices.long(), graph.edge_dst.long()

        def gather_and_add() -> Tensor:
            messages = x[source] * graph.value[:, None]
            return torch.zeros_like(x).index_add_(0, destination, messages)

        functions["scatter"] = gather_and_add
    with torch.no_grad():
        best = best_of(functions)
    note = f"{1e3 * best['fused']:.3g} ms"
    report.add(Row(f"{name}: CSR matmul / ours", best["csr"] / best["fused"], csr, True, note))
    if scatter is not None:
        ratio = best["scatter"] / best["fused"]
        report.add(Row(f"{name}: gather + index_add_ / ours", ratio, scatter, True))


LIMITS = {  # (forward, forward and backward), in cache and large
    "hard, 2 blocks": ((1.3, 1.4), (1.1, 1.15)),
    "concrete, 2 blocks": ((1.3, 1.4), (1.1, 1.15)),
    "hard per feature": ((2.0, 2.0), (1.3, 1.35)),
    "concrete per feature": ((6.0, 6.5), (2.5, 2.4)),
}


def masks(report: Report, graph: Graph, name: str, size: int) -> None:
    x = features(graph.num_src).requires_grad_()
    gradient = features(graph.num_dst)
    kinds = {
        "no mask": None,
        "hard, 2 blocks": with_mask(Kind.HARD, 2),
        "concrete, 2 blocks": with_mask(Kind.CONCRETE, 2),
        "hard per feature": with_mask(Kind.HARD, None),
        "concrete per feature": with_mask(Kind.CONCRETE, None),
    }

    def forward(mask: Mask | None) -> None:
        with torch.no_grad():
            aggregate(graph, x, mask)

    def both(mask: Mask | None) -> None:
        x.grad = None
        aggregate(graph, x, mask).backward(gradient)

    for number, (what, run) in enumerate((("forward", forward), ("forward and backward", both))):
        best = best_of({kind: lambda mask=mask, run=run: run(mask) for kind, mask in kinds.items()})
        for kind, limits in LIMITS.items():
            stretch = {"concrete per feature": (5.0, 2.0)}.get(kind) if number == 0 else None
            ratio = best[kind] / best["no mask"]
            note = f"{1e3 * best[kind]:.3g} ms"
            if stretch:
                outcome = "reached" if ratio <= stretch[size] else "missed"
                note += f", stretch {stretch[size]:g} {outcome}"
            report.add(
                Row(f"{name}: {kind}, {what} / no mask", ratio, limits[size][number], note=note)
            )


def linear(report: Report, large: Graph) -> None:
    small = random_graph(*ONE[1:])
    inputs = [features(graph.num_src) for graph in (small, large)]
    for kind, blocks in ((Kind.NONE, 1), (Kind.HARD, None)):
        mask = with_mask(kind, blocks)
        with torch.no_grad():
            best = best_of(
                {
                    "small": lambda mask=mask: aggregate(small, inputs[0], mask),
                    "large": lambda mask=mask: aggregate(large, inputs[1], mask),
                }
            )
        per_edge = [best["small"] / small.num_edges, best["large"] / large.num_edges]
        note = f"{1e9 * per_edge[0]:.3g} and {1e9 * per_edge[1]:.3g} ns per edge"
        name = "no mask" if kind is Kind.NONE else "hard per feature"
        what = f"time per edge, 20M over 1M edges, {name}"
        report.add(Row(what, per_edge[1] / per_edge[0], 2.0, note=note))


def main() -> bool:
    report = Report(
        "kernel",
        f"Aggregation of {FEATURES} features, {torch.get_num_threads()} threads, "
        f"{processor()}, features in huge pages (ours and torch's)",
    )
    small, middle = random_graph(*SMALL[1:]), random_graph(*MIDDLE[1:])
    against_torch(report, small, SMALL[0], 2.0, 10.0)
    against_torch(report, middle, MIDDLE[0], 2.0, 10.0)
    masks(report, small, SMALL[0], 0)
    large = random_graph(*LARGE[1:])
    against_torch(report, large, LARGE[0], 2.5, None)
    masks(report, large, LARGE[0], 1)
    linear(report, large)
    return report.finish()


if __name__ == "__main__":
    torch.set_num_threads(2)
    raise SystemExit(not main())
