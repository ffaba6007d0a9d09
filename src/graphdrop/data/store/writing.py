"""`write_store`: a graph as a folder of memory-mapped arrays, written whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from graphdrop.data.edges import EdgeChanges
from graphdrop.data.names import Names
from graphdrop.data.store.layout import MANIFEST, MASKS, About, Manifest, samples_sha256
from graphdrop.graph import Graph, Normalization
from graphdrop.io.files import expand_path, replace_file, sync_folder
from graphdrop.io.locks import LOCK, folder_lock

AT_ONCE = 1 << 26


def write_store(
    folder: str | Path,
    data: Any,
    num_classes: int,
    *,
    origin: Mapping[str, str] | None = None,
    changes: EdgeChanges | None = None,
) -> Path:
    """Write a checked PyG `Data` as a store, and return its folder.

    The arrays go into a hidden folder beside, which gets its name when all of it is on disk: a
    process that is killed leaves no store that opens, and the next one begins again.

    Args:
        folder: the store; it must not exist yet.
        data: `x [n, f]`, dense (a memory map too) or sparse; `edge_index [2, E]`; `y [n]`; masks
            `[n]` or `[n, splits]` and `edge_weight [E]` if it has them.
        num_classes: the number of classes.
        origin: the sha256 of every file that it came from.
        changes: what was done to the edges of those files.
    """
    target = expand_path(folder)
    if target.exists():
        raise ValueError(f"{target} exists already: give another name, or remove it first")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    with folder_lock(partial):
        for left in partial.iterdir():  # by a process that was killed
            if left.name != LOCK:
                left.unlink()
        try:
            nodes = data.y.shape[0]
            arrays = {name: _written(partial, name, array) for name, array in _arrays(data, nodes)}
            manifest = Manifest(
                nodes=nodes,
                edges=data.edge_index.shape[1],
                features=data.x.shape[1],
                classes=num_classes,
                arrays=arrays,
                origin=origin or {},
                changes=None if changes is None else asdict(changes),
            ).checked()
            replace_file(partial / MANIFEST, manifest.as_json().encode())
            (partial / LOCK).unlink(missing_ok=True)
            partial.rename(target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    sync_folder(target.parent)
    return target


def _arrays(data: Any, nodes: int) -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of a store, one by one."""
    x: Tensor = data.x
    if x.layout is torch.strided:
        yield "x", x.numpy()
    else:
        matrix = x.to_sparse_csr()
        yield "x_indptr", matrix.crow_indices().numpy()
        yield "x_indices", matrix.col_indices().numpy()
        yield "x_values", matrix.values().float().numpy()
    yield "y", data.y.long().numpy()
    yield "edge_index", data.edge_index.long().numpy()
    weight = data.get("edge_weight")
    if weight is not None:
        yield "edge_weight", weight.float().numpy()
    for name in MASKS:
        if data.get(name) is not None:
            yield name, data[name].numpy()
    if (rows := Names.of(data).rows) is not None:
        yield "row", rows.numpy()
    graph = Graph.from_edge_index(
        data.edge_index, nodes, weight, normalization=Normalization.ROW, self_loops=True
    )
    for name in ("indptr", "indices", "t_indptr", "t_indices", "t_edge"):
        yield name, getattr(graph, name).numpy()
    if graph.rank is not None:
        yield "rank", graph.rank.numpy()
    if weight is not None:
        yield "weight", graph.weight.numpy()


def _written(folder: Path, name: str, array: NDArray[Any]) -> About:
    """Write one array part by part, so that a memory map is not read into memory whole."""
    kind = np.dtype(np.float32) if name == "x" else array.dtype
    digest = hashlib.sha256()
    with (folder / f"{name}.npy").open("wb") as file:
        header = {"descr": npy.dtype_to_descr(kind), "fortran_order": False, "shape": array.shape}
        npy.write_array_header_1_0(file, header)
        file.flush()
        digest.update((folder / f"{name}.npy").read_bytes())
        flat = array if array.ndim > 1 else array[:, None]
        rows = max(1, AT_ONCE // max(1, flat[:1].nbytes))
        if len(flat) == 2 and name == "edge_index":  # two long rows
            parts = (row[at : at + AT_ONCE] for row in flat for at in range(0, len(row), AT_ONCE))
        else:
            parts = (flat[at : at + rows] for at in range(0, len(flat), rows))
        for part in parts:
            content = np.ascontiguousarray(part, dtype=kind).tobytes()
            digest.update(content)
            file.write(content)
        file.flush()
        os.fsync(file.fileno())
    samples = samples_sha256(folder / f"{name}.npy")
    return About(kind.name, tuple(array.shape), digest.hexdigest(), samples)
