"""The memory that a run will take, estimated before its first step.

It counts what a run allocates on top of what is there: sorted edges of the parts that it computes,
activations that are saved for the backward pass and their gradients, weights with the optimizer's
moments, and the sums of a prediction.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from itertools import pairwise

import torch

from graphdrop.graph.masks import Kind, Mask
from graphdrop.io.memory import format_bytes, free_bytes
from graphdrop.nn.conv import Sizes
from graphdrop.nn.features import SPARSE_DENSITY
from graphdrop.nn.layerwise import storage
from graphdrop.nn.models import GCN, fits_cache
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


def check_memory(run: Run, note: Callable[[str], None]) -> None:
    """Raise if a run takes more memory than there is; ``note`` takes a line on what it takes."""
    parts, free = estimate_memory(run), free_bytes()
    needed = sum(parts.values())
    if needed > SHOWN_BYTES:
        note(f"needs about {format_bytes(needed)}, {format_bytes(free)} free")
    if needed > free and os.environ.get(VARIABLE) != "off":
        advice = "train on mini-batches (--batch-size 1024), or lower model.hidden"
        if run.batches is not None:
            advice = "lower --batch-size, --fan-out or model.hidden"
        listed = ", ".join(f"{format_bytes(size)} {name}" for name, size in parts.items())
        raise ValueError(
            f"the run needs about {format_bytes(needed)} of memory ({listed}), and "
            f"{format_bytes(free)} are free: {advice}; or set {VARIABLE}=off to try it all the same"
        )


def estimate_memory(run: Run) -> dict[str, int]:
    """Estimate the bytes that a run takes, by what takes them."""
    settings, nodes, stored = run.config.model, len(run.data.x), run.data.edge_index
    edges = nodes + (int(stored.shape[1]) if isinstance(stored, torch.Tensor) else 0)
    outputs = max(1, int(run.task.width(run.data, run.dataset.num_classes, settings.hidden)))
    widths = [int(run.data.x.shape[1]), *[settings.hidden] * (settings.layers - 1), outputs]
    sizes = {
        "edges": (EDGE_BYTES + SORT_BYTES) * edges,
        "activations": 0,
        "weights": WEIGHT_COPIES * FLOAT * sum(p.numel() for p in run.model.parameters()),
        "prediction": SUMMARY_BYTES * outputs * max(map(len, run.rows.values())),
        "libraries": OWN_BYTES,
    }
    if run.batches is not None:
        batch, hidden = _estimate_batches(run, nodes, edges, widths)
        sizes["activations"] += batch
        sizes["prediction"] += hidden
    elif settings.architecture == "gcn" and isinstance(run.model, GCN):
        kept, sizes["activations"] = _estimate_gcn(run, nodes, edges)
        sizes["edges"] = EDGE_BYTES * kept + SORT_BYTES * edges
    else:  # PyG layers, over all nodes
        attention = settings.architecture in ("gat", "gatv2")
        saved = sum(
            FLOAT * nodes * (inputs + 4 * outputs)
            + attention * MESSAGE_COPIES * FLOAT * edges * outputs
            for inputs, outputs in pairwise(widths)
        )
        sizes["edges"] += 3 * EDGE_BYTES * edges
        sizes["activations"] = _count_passes(run) * saved + saved // 2
    return sizes


def _count_passes(run: Run) -> int:
    return max(run.config.train.passes, 2 if run.config.objective.agree else 1)


def _estimate_gcn(run: Run, n: int, e: int) -> tuple[int, int]:
    """The edges that are kept, and the bytes of activations, on the receptive fields of the parts.

    ``n`` is the number of nodes, ``e`` that of edges with a loop for each node.
    """
    layers = len(run.model.layers)
    unlabelled = run.config.objective.agree or run.teacher is not None
    wanted = n if unlabelled or not run.task.of_nodes else len(run.rows["train"])
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
        parts = layer.count_parts(sizes, mask, first=i == 0)
        outputs = rows[i + 1] * layer.out_channels
        terms = rows[i] * parts * layer.out_channels or rows[i + 1] * layer.in_channels
        saved += FLOAT * (terms + 2 * outputs)
        largest = max(largest, FLOAT * max(terms, outputs))
    return kept, _input_bytes(run, n, rows[0]) + _count_passes(run) * saved + 2 * largest


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


def _estimate_batches(run: Run, n: int, e: int, widths: list[int]) -> tuple[int, int]:
    """The bytes of mini-batches, and of a layer-wise prediction over all nodes."""
    settings = run.config.train
    fans = [int(number) for number in settings.fan_out.split(",")]
    rows, batch, degree = min(settings.batch_size, len(run.rows["train"])), 0, math.ceil(e / n)
    for i, width in enumerate(reversed(widths[:-1])):
        fan = fans[min(i, len(fans) - 1)]
        sampled = rows * (degree if fan < 0 else min(fan, degree))
        rows = min(n, rows + sampled)
        batch += 3 * FLOAT * rows * width + 2 * EDGE_BYTES * sampled
    widest = max(widths[1:])
    at_once = min(settings.samples, storage.States(n).count_samples(2 * widest, widest))
    hidden = (2 * at_once + 1) * FLOAT * n * widest + storage.CHUNK_BYTES * 3
    if run.config.model.architecture == "gcn" and fits_cache(run.data.x):
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
