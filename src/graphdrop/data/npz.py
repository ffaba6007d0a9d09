"""Graphs stored as `.npz` archives, in the two layouts that node classification benchmarks use.

- Shchur and Bojchevski: `adj_matrix.*` and `attr_matrix.*` (or `adj_*`, `attr_*`) are the `data`,
  `indices`, `indptr` and `shape` of a CSR matrix, `labels` has one class per node. The attributes
  may also be one dense array `attr_matrix`. Weights of the adjacency matrix are not used: every
  entry that is not zero is an edge.
- Platonov: `node_features [n, f]`, `node_labels [n]`, `edges [E, 2]`, and `train_masks`,
  `val_masks`, `test_masks`, each `[splits, n]`.

Object arrays, which would have to be unpickled, are never read.
"""

from typing import IO, Any

import numpy as np
import torch
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.data.matrices import checked_csr, feature_tensor

_KINDS = {"biuf": "numbers", "iu": "integers", "b": "booleans"}
_MASKS = ("train_masks", "val_masks", "test_masks")


def read_npz(stream: IO[bytes], name: str) -> Data:
    """Read one archive into features, labels, the edges as stored, and masks `[n, splits]` if any.

    `name` is the file's name, for errors.
    """
    with _Archive(stream, name) as archive:
        if {"node_features", "node_labels", "edges"} <= archive.keys:
            return _read_platonov(archive)
        for adjacency, attributes in (("adj_matrix.", "attr_matrix."), ("adj_", "attr_")):
            if f"{adjacency}indptr" in archive.keys and "labels" in archive.keys:
                return _read_shchur(archive, adjacency, attributes)
        raise ValueError(
            f"{name} has the arrays {', '.join(sorted(archive.keys)) or '(none)'}: it takes "
            "adj_matrix.*, attr_matrix.* and labels, or node_features, node_labels and edges"
        )


class _Archive:
    """The numeric arrays of an archive by name, each error saying which file and array it is in."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self.name = name
        try:
            archive = np.load(stream, allow_pickle=False)
        except Exception as error:  # a broken archive may raise nearly anything
            raise ValueError(
                f"{name} is not an .npz archive, or is cut short: fetch or save it again"
            ) from error
        if not isinstance(archive, NpzFile):
            raise ValueError(f"{name} holds a single array: it takes an .npz archive of several")
        self._archive = archive
        self.keys = frozenset(archive.files)

    def __enter__(self) -> "_Archive":
        return self

    def __exit__(self, *exception: object) -> None:
        self._archive.close()

    def array(self, key: str, dimensions: int, kinds: str = "biuf") -> NDArray[Any]:
        """The array `key`; `kinds` are numpy's letters of the types it may have."""
        if key not in self.keys:
            raise ValueError(f"{self.name} has no array {key}: add it")
        try:
            array = np.asanyarray(self._archive[key])
        except Exception as error:
            raise ValueError(
                f"{self.name} has an array {key} that is damaged or not numbers ({error}): "
                "save it again"
            ) from error
        if array.ndim != dimensions or array.dtype.kind not in kinds:
            raise ValueError(
                f"{self.name} has an array {key} of shape {array.shape} and type {array.dtype}: "
                f"it takes {dimensions} dimensions of {_KINDS[kinds]}"
            )
        return array


def _read_shchur(archive: _Archive, adjacency: str, attributes: str) -> Data:
    edges = _read_csr(archive, adjacency)
    if edges.shape[0] != edges.shape[1]:
        raise ValueError(
            f"{archive.name} has an adjacency matrix of shape {edges.shape}: not square"
        )
    entries = edges.tocoo()
    if not np.isfinite(entries.data).all():
        raise ValueError(f"{archive.name} has an infinite or NaN entry in its adjacency matrix")
    present = entries.data != 0
    dense = attributes.rstrip("._")
    return Data(
        x=feature_tensor(
            archive.array(dense, 2) if dense in archive.keys else _read_csr(archive, attributes)
        ),
        edge_index=_integers(np.stack([entries.row[present], entries.col[present]])),
        y=_integers(archive.array("labels", 1, "iu")),
    )


def _read_platonov(archive: _Archive) -> Data:
    edges = archive.array("edges", 2, "iu")
    if edges.shape[1] != 2:
        raise ValueError(f"{archive.name} has edges of shape {edges.shape}: it takes two columns")
    data = Data(
        x=feature_tensor(archive.array("node_features", 2)),
        edge_index=_integers(edges.T),
        y=_integers(archive.array("node_labels", 1, "iu")),
    )
    if archive.keys.intersection(_MASKS):
        for key in _MASKS:
            masks = archive.array(key, 2, "b")
            data[key.removesuffix("s")] = torch.from_numpy(np.ascontiguousarray(masks.T))
    return data


def _read_csr(archive: _Archive, prefix: str) -> csr_matrix:
    return checked_csr(
        archive.array(f"{prefix}data", 1),
        archive.array(f"{prefix}indices", 1, "iu"),
        archive.array(f"{prefix}indptr", 1, "iu"),
        archive.array(f"{prefix}shape", 1, "iu").tolist(),
        f"{archive.name}, {prefix}*",
    )


def _integers(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64))
