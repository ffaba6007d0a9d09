"""The memory that a run will take, estimated before its first step.

It counts what a run allocates on top of what is there: sorted edges of the parts that it computes,
activations that are saved for the backward pass and their gradients, weights with the optimizer's
moments, and the sums of a prediction.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch

from graphdrop.graph.masks import Kind, Mask
from graphdrop.io.memory import format_bytes, free_bytes
from graphdrop.nn.features import SPARSE_DENSITY
from graphdrop.nn.held_features import holds_features
from graphdrop.nn.layerwise import states
from graphdrop.nn.models import GCN
from graphdrop.nn.plan import Sizes, parts_of
from graphdrop.train.run import Run

FLOAT = 4
EDGE_BYTES = 44
"""An edge in a `Graph` of int32: by destination, by source, weights, ids and what is derived."""
SORT_BYTES = 48
"""What sorting takes for an edge, beside the result."""
MESSAGE_COPIES = 6
"""How many copies of its messages an attention layer saves for the backward pass."""
WEIGHT_COPIES = 6
"""A weight, its gradient, Adam's two moments, the best state and a checkpoint."""
SUMMARY_BYTES = 96
"""The sums of a prediction in float64, for a node and class."""
OWN_BYTES = 1 << 26
"""What compiled kernels and libraries take on first use."""
SHOWN_BYTES = 1 << 28
"""A run that takes less is not announced."""
VARIABLE = "GRAPHDROP_MEMORY_CHECK"
"""The environment variable that lets a run begin that may not fit, if it is `off`."""


@dataclass(frozen=True)
class MemoryEstimate:
    """What a run takes, in bytes.

    Example:
        >>> str(MemoryEstimate(edges=2**30, activations=2**31, weights=0, prediction=0))
        '1.0 GiB edges, 2.0 GiB activations, 0 bytes weights, 0 bytes prediction'
    """

    edges: int
    activations: int
    weights: int
    prediction: int

    @property
    def total(self) -> int:
        """The sum of all parts, and what libraries take."""
        return self.edges + self.activations + self.weights + self.prediction + OWN_BYTES

    def __str__(self) -> str:
        names = ("edges", "activations", "weights", "prediction")
        return ", ".join(f"{format_bytes(getattr(self, name))} {name}" for name in names)


def check_memory(run: Run, note: Callable[[str], None]) -> None:
    """Raise if a run takes more memory than there is; ``note`` takes a line on what it takes."""
    needed, free = estimate_memory(run), free_bytes()
    if needed.total > SHOWN_BYTES:
        note(f"needs about {format_bytes(needed.total)}, {format_bytes(free)} free")
    if needed.total > free and os.environ.get(VARIABLE) != "off":
        advice = "train on mini-batches (--batch-size 1024), or lower model.hidden"
        if run.batches is not None:
            advice = "lower --batch-size, --fan-out or model.hidden"
        raise ValueError(
            f"the run needs about {format_bytes(needed.total)} of memory ({needed}), and "
            f"{format_bytes(free)} are free: {advice}; or set {VARIABLE}=off to try it all the same"
        )


def estimate_memory(run: Run) -> MemoryEstimate:
    """Estimate the memory that a run takes."""
    settings, data = run.config.model, run.data
    nodes, features = data.x.shape
    stored = data.edge_index
    edges = nodes + (int(stored.shape[1]) if isinstance(stored, torch.Tensor) else 0)
    outputs = max(1, int(run.task.width(data, run.dataset.num_classes, settings.hidden)))
    widths = [int(features), *[settings.hidden] * (settings.layers - 1), outputs]
    weights = WEIGHT_COPIES * FLOAT * sum(p.numel() for p in run.model.parameters())
    prediction = SUMMARY_BYTES * outputs * max(len(rows) for rows in run.rows.values())
    if run.batches is not None:
        batch, hidden = _estimate_batches(run, nodes, edges, widths)
        edge_bytes = (EDGE_BYTES + SORT_BYTES) * edges
        return MemoryEstimate(edge_bytes, batch, weights, prediction + hidden)
    if settings.architecture == "gcn" and isinstance(run.model, GCN):
        edge_bytes, activations = _estimate_gcn(run, nodes, edges, widths)
    else:
        edge_bytes, activations = _estimate_attached(run, nodes, edges, widths)
    return MemoryEstimate(edge_bytes, activations, weights, prediction)


def _estimate_gcn(run: Run, n: int, e: int, widths: list[int]) -> tuple[int, int]:
    """The bytes of edges and activations, full batch on the receptive fields of the split's parts.

    Args:
        run: the run.
        n: the number of nodes.
        e: the number of edges, with a loop for each node.
        widths: the number of features before and after every layer.
    """
    settings, layers = run.config, len(widths) - 1
    all_nodes = bool(settings.objective.agree or run.teacher is not None) or not run.task.of_nodes
    wanted = n if all_nodes else len(run.rows["train"])
    rows, edges = _receptive_field(n, e, wanted, layers)
    kept = e + sum(edges)
    if run.task.of_nodes:
        for size in {len(members) for part, members in run.rows.items() if part != "train"}:
            kept += sum(_receptive_field(n, e, size, layers)[1])
    saved, largest = 0, 0
    for i, layer in enumerate(run.model.layers):
        sizes = Sizes(rows[i], rows[i + 1], edges[i])
        sampler, mask = layer.sampler, None
        if sampler is not None and not sampler.on_features:
            key = torch.zeros(2, dtype=torch.int64)
            mask = Mask(Kind.HARD, torch.zeros(()), key, blocks=sampler.blocks)
        # the numbers that are summed over neighbours, or their sums if the product follows
        parts = parts_of(layer, sizes, mask, first=i == 0)
        terms = sizes.num_src * parts * layer.out_channels or sizes.num_dst * layer.in_channels
        outputs = sizes.num_dst * layer.out_channels
        saved += FLOAT * (terms + 2 * outputs)
        largest = max(largest, FLOAT * max(terms, outputs))
    passes = max(settings.train.passes, 2 if settings.objective.agree else 1)
    activations = _input_bytes(run, n, rows[0]) + passes * saved + 2 * largest
    return EDGE_BYTES * kept + SORT_BYTES * e, activations


def _receptive_field(n: int, e: int, wanted: int, layers: int) -> tuple[list[int], list[int]]:
    """The rows that every layer reads and the last one computes, and the edges of every layer.

    They are those of a random graph with `n` nodes and `e` edges.
    """
    rows, edges = [wanted], list[int]()
    for _ in range(layers):
        edges.insert(0, min(e, int(rows[0] * e / max(n, 1)) + 1))
        sources = min(n, int(n * -math.expm1(-edges[0] / max(n, 1))) + 1)
        rows.insert(0, max(sources, min(rows[0], n)))
    return rows, edges


def _estimate_attached(run: Run, n: int, e: int, widths: list[int]) -> tuple[int, int]:
    """The bytes of edges and activations of PyG layers, full batch over all nodes."""
    attention = run.config.model.architecture in ("gat", "gatv2")
    saved = 0
    for inputs, outputs in pairwise(widths):
        saved += FLOAT * n * (inputs + 4 * outputs)
        if attention:
            saved += MESSAGE_COPIES * FLOAT * e * outputs
    passes = max(run.config.train.passes, 2 if run.config.objective.agree else 1)
    return (4 * EDGE_BYTES + SORT_BYTES) * e, passes * saved + saved // 2


def _estimate_batches(run: Run, n: int, e: int, widths: list[int]) -> tuple[int, int]:
    """The bytes of mini-batches, and of a layer-wise prediction over all nodes."""
    settings = run.config.train
    fans = [int(number) for number in settings.fan_out.split(",")]
    rows, batch = min(settings.batch_size, len(run.rows["train"])), 0
    degree = math.ceil(e / max(n, 1))
    for i, width in enumerate(reversed(widths[:-1])):
        fan = fans[min(i, len(fans) - 1)]
        sampled = rows * (degree if fan < 0 else min(fan, degree))
        rows = min(n, rows + sampled)
        batch += 3 * FLOAT * rows * width + 2 * EDGE_BYTES * sampled
    widest = max(widths[1:])
    at_once = min(settings.samples, states.States(n).at_once(2 * widest, widest))
    hidden = (2 * at_once + 1) * FLOAT * n * widest + states.CHUNK_BYTES * 3
    if run.config.model.architecture == "gcn" and holds_features(run.data.x):
        hidden += _input_bytes(run, n, n)
    return 2 * batch, hidden


def _input_bytes(run: Run, n: int, read: int) -> int:
    """What the features take beside their stored form: preprocessed, sparse, or rows of them."""
    x, width = run.data.x, int(run.data.x.shape[1])
    changed = 0 if run.engine.defaults.features == "stored" else FLOAT * n * width
    if x.layout is not torch.strided:
        entries = x.values().numel() if x.layout is torch.sparse_csr else x._nnz()
        return 24 * int(entries) + changed
    seen = x[:: max(1, n // 4096)]
    share = int(torch.count_nonzero(seen)) / max(1, seen.numel())
    if share < SPARSE_DENSITY:
        return int(64 * share * n * width) + changed
    return (FLOAT * read * width if read < n else 0) + changed
