"""Graphs stored as `.npz` archives, in the two layouts that node classification benchmarks use.

- Shchur and Bojchevski: `adj_matrix.*` and `attr_matrix.*` (or `adj_*`, `attr_*`) are the `data`,
  `indices`, `indptr` and `shape` of a CSR matrix, `labels` has one class per node. The attributes
  may also be one dense array `attr_matrix`. Weights of the adjacency matrix are not used: every
  entry that is not zero is an edge.
- Platonov: `node_features [n, f]`, `node_labels [n]`, `edges [E, 2]`, and `train_masks`,
  `val_masks`, `test_masks`, each `[splits, n]`.

Object arrays, which would have to be unpickled, are never read.
"""

from typing import IO, Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.data.matrices import check_columns, checked_csr, feature_tensor
from graphdrop.data.npz_archive import Archive, Use
from graphdrop.io.memory import most_bytes

_MASKS: Final = ("train_masks", "val_masks", "test_masks")


def read_npz(stream: IO[bytes], name: str, max_bytes: int | None = None) -> Data:
    """Read one archive into features, labels, the edges as stored, and masks `[n, splits]` if any.

    `name` is the file's name, for errors; `max_bytes` is as in `load_dataset`.
    """
    with Archive(stream, name, most_bytes(max_bytes)) as archive:
        if {"node_features", "node_labels", "edges"} <= archive.keys:
            return _read_platonov(archive)
        for adjacency, attributes in (("adj_matrix.", "attr_matrix."), ("adj_", "attr_")):
            if f"{adjacency}indptr" in archive.keys and "labels" in archive.keys:
                return _read_shchur(archive, adjacency, attributes)
        found = ", ".join(sorted(archive.keys)[:20]) or "(none)"
        raise ValueError(
            f"{name} has the arrays {found}: it takes "
            "adj_matrix.*, attr_matrix.* and labels, or node_features, node_labels and edges"
        )


def _read_shchur(archive: Archive, adjacency: str, attributes: str) -> Data:
    edges = _read_csr(archive, adjacency, Use.ADJACENCY)
    if edges.shape[0] != edges.shape[1]:
        raise ValueError(
            f"{archive.name} has an adjacency matrix of shape {edges.shape}: not square"
        )
    nodes = edges.shape[0]
    labels = _integers(archive, "labels", archive.array("labels", (nodes,), "iu", Use.LABELS))
    entries = edges.tocoo()
    if not np.isfinite(entries.data).all():
        raise ValueError(f"{archive.name} has an infinite or NaN entry in its adjacency matrix")
    present = entries.data != 0
    dense = attributes.rstrip("._")
    if dense in archive.keys:
        features = archive.array(dense, (nodes, None), "biuf", Use.FEATURES)
    else:
        features = _read_csr(archive, attributes, Use.COLUMNS, rows=nodes)
        check_columns(features.shape[1], f"{archive.name}, {attributes}*,", archive.most)
    return Data(
        x=feature_tensor(features, archive.free),
        edge_index=torch.from_numpy(
            np.stack([entries.row[present], entries.col[present]]).astype(np.int64)
        ),
        y=labels,
    )


def _read_platonov(archive: Archive) -> Data:
    labels = archive.array("node_labels", (archive.rows("node_features"),), "iu", Use.LABELS)
    y = _integers(archive, "node_labels", labels)
    features = archive.array("node_features", (len(labels), None), "biuf", Use.FEATURES)
    edges = archive.array("edges", (None, 2), "iu", Use.EDGES)
    edge_index = _integers(archive, "edges", edges.T)
    data = Data(x=feature_tensor(features), edge_index=edge_index, y=y)
    if archive.keys.intersection(_MASKS):
        for key in _MASKS:
            masks = archive.array(key, (None, len(labels)), "b", Use.MASKS)
            data[key.removesuffix("s")] = torch.from_numpy(np.ascontiguousarray(masks.T))
    return data


def _read_csr(archive: Archive, prefix: str, use: Use, rows: int | None = None) -> csr_matrix:
    shape = archive.array(f"{prefix}shape", (2,), "iu", Use.LABELS).tolist()
    if rows is not None and shape[0] != rows:
        raise ValueError(
            f"{archive.name} has {prefix}shape {shape} and {rows} nodes: give a row for each"
        )
    indptr = archive.array(f"{prefix}indptr", (shape[0] + 1,), "iu", Use.LABELS)
    entries = int(indptr[-1]) if len(indptr) else 0
    return checked_csr(
        archive.array(f"{prefix}data", (entries,), "biuf", Use.FEATURES),
        archive.array(f"{prefix}indices", (entries,), "iu", use),
        indptr,
        shape,
        f"{archive.name}, {prefix}*",
    )


def _integers(archive: Archive, key: str, array: NDArray[Any]) -> Tensor:
    """An array as int64; a number beyond it, which would become another one, is refused."""
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
        raise ValueError(
            f"{archive.name} has an array {key} with the number {array.max()}: number nodes and "
            "classes from 0"
        )
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64))
