"""Forks a process before or after it has used the fused kernel; run as a script by the tests."""

import os
import sys
import traceback

import torch

from graphdrop.graph import Graph
from graphdrop.graph.masks import Kind, Mask, stream_key
from graphdrop.kernels import aggregate

# made before the fork: torch's own threads do not survive one either
GRAPH = Graph.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 0]]), 3, normalization="none")
X = torch.eye(3)
MASK = Mask(Kind.HARD, torch.tensor(0.0), stream_key(2))


def use_in_child(expected: torch.Tensor, *, forked_after_use: bool) -> int:
    """What the child does; the exit code says whether it went as it should."""
    if not forked_after_use:
        return 0 if torch.equal(aggregate(GRAPH, X, MASK, backend="fused"), expected) else 1
    try:
        aggregate(GRAPH, X, MASK, backend="fused")
    except RuntimeError as error:
        by_reference = aggregate(GRAPH, X, MASK, backend="reference")
        told = "start workers with the 'spawn' method" in str(error)
        return 0 if told and torch.equal(by_reference, expected) else 2
    return 3


def main(*, use_first: bool) -> int:
    expected = aggregate(GRAPH, X, MASK, backend="reference")
    torch.ones(1 << 20).exp()  # starts threads of torch
    if use_first:
        aggregate(GRAPH, X, MASK, backend="fused")
    child = os.fork()
    if child == 0:
        code = 4
        try:
            code = use_in_child(expected, forked_after_use=use_first)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if not torch.equal(aggregate(GRAPH, X, MASK, backend="fused"), expected):
        return 5
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(use_first=sys.argv[1] == "after"))
