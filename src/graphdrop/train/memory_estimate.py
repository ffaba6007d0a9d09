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
from typing import Any

import torch

from graphdrop.graph.masks import Kind, Mask
from graphdrop.io.memory import format_bytes, free_bytes
from graphdrop.nn.conv import SampledGCNConv
from graphdrop.nn.features import SPARSE_DENSITY
from graphdrop.nn.held_features import holds_features
from graphdrop.nn.layerwise import states
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


def estimate_memory(run: Run) -> MemoryEstimate:
    """Estimate the memory that a run takes."""
    settings, data = run.config, run.data
    nodes = int(data.x.shape[0])
    edges = _count_edges(data) + nodes
    widths = _list_widths(run)
    weights = WEIGHT_COPIES * FLOAT * sum(p.numel() for p in run.model.parameters())
    classes = max(widths[-1], 1)
    prediction = SUMMARY_BYTES * classes * max(len(rows) for rows in run.rows.values())
    if getattr(settings.train, "batch_size", 0):
        return _estimate_batches(run, nodes, edges, widths, weights, prediction)
    if settings.model.architecture != "gcn" or not hasattr(run.model, "between"):
        return _estimate_attached(run, nodes, edges, widths, weights, prediction)
    return _estimate_gcn(run, nodes, edges, widths, weights, prediction)


def check_memory(run: Run, note: Callable[[str], None]) -> None:
    """Raise if a run takes more memory than there is; ``note`` takes a line on what it takes."""
    needed, free = estimate_memory(run), free_bytes()
    if needed.total > SHOWN_BYTES:
        note(f"needs about {format_bytes(needed.total)}, {format_bytes(free)} free")
    if needed.total > free and os.environ.get(VARIABLE) != "off":
        raise ValueError(
            f"the run needs about {format_bytes(needed.total)} of memory ({needed}), and "
            f"{format_bytes(free)} are free: {_advise(run)}; or set {VARIABLE}=off to try it "
            "all the same"
        )


def _estimate_gcn(run: Run, n: int, e: int, widths: list[int], *rest: int) -> MemoryEstimate:
    """Full batch on the receptive fields of training, validation and test nodes."""
    layers = len(widths) - 1
    whole = bool(run.config.objective.agree or run.teacher is not None) or not run.task.of_nodes
    fields = [_estimate_field(n, e, n if whole else len(run.rows["train"]), layers)]
    if run.task.of_nodes:
        others = {len(r): r for name, r in run.rows.items() if name != "train"}
        fields += [_estimate_field(n, e, size, layers) for size in others]
    parts = sum(sum(edges for _, edges in field) for field in fields)
    edges = EDGE_BYTES * (e + parts) + SORT_BYTES * e
    input_bytes, copied = _input_bytes(run, n, fields[0][0][0], widths[0])
    saved, largest = 0, 0
    wanted = n if whole else len(run.rows["train"])
    rows = [*(sources for sources, _ in fields[0]), wanted]  # read by each layer, and computed
    for number, layer in enumerate(run.model.layers):
        sizes = Sizes(rows[number], rows[number + 1], fields[0][number][1])
        terms, outputs = (
            _count_terms(layer, sizes, first=number == 0),
            sizes.num_dst * layer.out_channels,
        )
        saved += FLOAT * (terms + 2 * outputs)
        largest = max(largest, FLOAT * max(terms, outputs))
    passes = max(run.config.train.passes, 2 if run.config.objective.agree else 1)
    activations = input_bytes + copied + passes * saved + 2 * largest
    return MemoryEstimate(edges, activations, rest[0], rest[1])


def _count_terms(layer: SampledGCNConv, sizes: Sizes, *, first: bool) -> int:
    """How many numbers a layer sums over neighbours, or its sums if the product follows."""
    sampler, mask = layer.sampler, None
    if sampler is not None and not sampler.on_features:
        key = torch.zeros(2, dtype=torch.int64)
        mask = Mask(Kind.HARD, torch.zeros(()), key, blocks=sampler.blocks)
    parts = parts_of(layer, sizes, mask, first=first)
    return sizes.num_src * parts * layer.out_channels or sizes.num_dst * layer.in_channels


def _estimate_attached(run: Run, n: int, e: int, widths: list[int], *rest: int) -> MemoryEstimate:
    """Full batch of PyG layers, over all nodes."""
    attention = run.config.model.architecture in ("gat", "gatv2")
    saved = 0
    for inputs, outputs in pairwise(widths):
        saved += FLOAT * n * (inputs + 4 * outputs)
        if attention:
            saved += MESSAGE_COPIES * FLOAT * e * outputs
    passes = max(run.config.train.passes, 2 if run.config.objective.agree else 1)
    edges = (4 * EDGE_BYTES + SORT_BYTES) * e
    return MemoryEstimate(edges, passes * saved + saved // 2, rest[0], rest[1])


def _estimate_batches(run: Run, n: int, e: int, widths: list[int], *rest: int) -> MemoryEstimate:
    """Mini-batches, and layer-wise prediction over all nodes."""
    settings: Any = run.config.train
    fans = [int(number) for number in settings.fan_out.split(",")]
    rows, batch = min(settings.batch_size, len(run.rows["train"])), 0
    degree = math.ceil(e / max(n, 1))
    for number, width in enumerate(reversed(widths[:-1])):
        fan = fans[min(number, len(fans) - 1)]
        sampled = rows * (degree if fan < 0 else min(fan, degree))
        rows = min(n, rows + sampled)
        batch += 3 * FLOAT * rows * width + 2 * EDGE_BYTES * sampled
    widest = max(widths[1:])
    at_once = min(run.config.train.samples, states.States(n).at_once(2 * widest, widest))
    hidden = (2 * at_once + 1) * FLOAT * n * widest + states.CHUNK_BYTES * 3
    if run.config.model.architecture == "gcn" and holds_features(run.data.x):
        hidden += sum(_input_bytes(run, n, n, widths[0]))
    edges = EDGE_BYTES * e + SORT_BYTES * e
    return MemoryEstimate(edges, 2 * batch, rest[0], rest[1] + hidden)


def _estimate_field(n: int, e: int, rows: int, layers: int) -> list[tuple[int, int]]:
    """Sources and edges of each layer's part, first layer first, of a random graph."""
    degree, parts = e / max(n, 1), list[tuple[int, int]]()
    for _ in range(layers):
        edges = min(e, int(rows * degree) + 1)
        sources = min(n, int(n * -math.expm1(-edges / max(n, 1))) + 1)
        parts.append((max(sources, min(rows, n)), edges))
        rows = parts[-1][0]
    return parts[::-1]


def _input_bytes(run: Run, n: int, read: int, width: int) -> tuple[int, int]:
    """What the features take beside their stored form: preprocessed, sparse, or rows of them."""
    x = run.data.x
    changed = 0 if run.engine.defaults.features == "stored" else FLOAT * n * width
    if x.layout is not torch.strided:
        return 24 * int(x.values().numel() if x.layout is torch.sparse_csr else x._nnz()), changed
    seen = x[:: max(1, n // 4096)]
    share = int(torch.count_nonzero(seen)) / max(1, seen.numel())
    if share < SPARSE_DENSITY:
        return int(64 * share * n * width), changed
    return (FLOAT * read * width if read < n else 0), changed


def _count_edges(data: Any) -> int:
    edge_index = data.edge_index
    return int(edge_index.shape[1]) if isinstance(edge_index, torch.Tensor) else 0


def _list_widths(run: Run) -> list[int]:
    """The number of features before and after every layer."""
    settings, first = run.config.model, int(run.data.x.shape[1])
    out = run.task.width(run.data, run.dataset.num_classes, settings.hidden)
    return [first, *[settings.hidden] * (settings.layers - 1), max(1, int(out))]


def _advise(run: Run) -> str:
    settings = run.config
    known = getattr(settings.train, "batch_size", None)
    if known == 0:
        return "train on mini-batches (--batch-size 1024), or lower model.hidden"
    if known:
        return "lower --batch-size, --fan-out or model.hidden"
    return "lower model.hidden, model.layers or train.passes"
