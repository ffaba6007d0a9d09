"""Mini-batches as models read them: the `BatchGraph` of a PyG `Data` with `n_id`."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from graphdrop.loading.batch import BatchGraph


def batch_graph(data: Any) -> BatchGraph | None:
    """The graph of a mini-batch; None for a whole graph, which has no `n_id`."""
    if getattr(data, "n_id", None) is None:
        return None
    return needed_batch_graph(data)


def needed_batch_graph(batch: Any) -> BatchGraph:
    """The graph of a mini-batch, or an error that says how to get one."""
    graph = getattr(batch, "graph", None)
    if not isinstance(graph, BatchGraph):
        raise ValueError(
            "batch has no graph; it takes one that knows the degrees and ids of the whole graph. "
            "Use graphdrop.loading.NeighborLoader, or for a batch of PyG's loader "
            "graphdrop.loading.with_graph(batch, WholeGraph.from_data(data))."
        )
    return graph


def check_batch(batch: BatchGraph, nodes: int, rows: Tensor | None) -> None:
    """Raise unless features and rows are those of a mini-batch."""
    if nodes != batch.num_nodes:
        raise ValueError(
            f"x has {nodes} rows; it takes those of the {batch.num_nodes} nodes of the batch."
        )
    if rows is not None:
        raise ValueError(
            "rows is given beside a mini-batch, whose outputs are those of its seed nodes. "
            "Leave rows out, and select from the output."
        )
