"""Masked passes under a limit on memory, which ones fit; run as a script by the tests.

The limit is what the process has mapped after warming up, plus what a pass itself needs (its
output, and the gradients) and a margin smaller than a byte for each edge and feature, or for each
pair of nodes.
"""

import argparse
import json
import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from contracts.masked_sums import normal, power_law_edges
from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, stream_key
from graphdrop.kernels import aggregate, reference

NODES, EDGES, FEATURES = 9_000, 600_000, 128
MARGIN = 32 << 20


def mapped_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def step(run: Callable[[Graph, Tensor, Mask], Tensor], graph: Graph, x: Tensor, mask: Mask) -> None:
    logit = mask.keep_logit.detach().requires_grad_(mask.kind is Kind.CONCRETE)
    run(graph, x, replace(mask, keep_logit=logit)).sum().backward()  # type: ignore[no-untyped-call]
    x.grad = None


def all_messages_at_once(graph: Graph, x: Tensor, mask: Mask) -> Tensor:
    return reference.aggregate(graph, x, mask, message_bytes=1 << 60)


def mask_of_pairs(graph: Graph, x: Tensor, mask: Mask) -> Tensor:
    torch.ones(graph.num_dst, graph.num_src, dtype=torch.bool)
    return aggregate(graph, x, mask)


def mask_of_features(graph: Graph, x: Tensor, mask: Mask) -> Tensor:
    torch.ones(graph.num_edges, x.shape[1], dtype=torch.bool)
    return aggregate(graph, x, mask)


RUNS = {
    "fused": aggregate,
    "all messages at once": all_messages_at_once,
    "n by n": mask_of_pairs,
    "E by features": mask_of_features,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=list(Kind))
    parser.add_argument("--per-edge", action="store_true")
    options = parser.parse_args()
    graph = Graph.from_edge_index(power_law_edges(NODES, EDGES), NODES)
    logit = normal(graph.num_edges) if options.per_edge else torch.tensor(0.3)
    mask = Mask(Kind(options.kind), logit, stream_key(1), blocks=None)
    x = normal(NODES, FEATURES).requires_grad_()
    small = graph.rows(torch.arange(5))
    step(aggregate, small, normal(small.num_src, FEATURES).requires_grad_(), mask)  # compiles
    step(aggregate, graph, x, Mask(Kind.NONE, torch.zeros(()), mask.key))  # starts threads
    # output, gradients of output and input, and a copy of one; a few words for each edge
    needs = 4 * x.numel() * x.element_size() + 5 * 8 * graph.num_edges * options.per_edge
    limit = mapped_bytes() + needs + MARGIN
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    fits = {}
    for name, run in RUNS.items():
        try:
            step(run, graph, x, mask)
            fits[name] = True
        except (MemoryError, RuntimeError):  # torch's allocator raises the second
            fits[name] = False
    print(json.dumps(fits))


if __name__ == "__main__":
    main()
