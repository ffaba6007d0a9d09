"""Graphs stored as `.npz` archives, in the two layouts that node classification benchmarks use.

- Shchur and Bojchevski: `adj_matrix.*` and `attr_matrix.*` (or `adj_*`, `attr_*`) are the `data`,
  `indices`, `indptr` and `shape` of a CSR matrix, `labels` has one class per node. The attributes
  may also be one dense array `attr_matrix`. Weights of the adjacency matrix are not used: every
  entry that is not zero is an edge.
- Platonov: `node_features [n, f]`, `node_labels [n]`, `edges [E, 2]`, and `train_masks`,
  `val_masks`, `test_masks`, each `[splits, n]`.

Object arrays, which would have to be unpickled, are never read. Shape and type of an array are
checked in its header before it is unpacked, because a few megabytes of archive may hold terabytes
of zeros.
"""

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import IO, Any, Final

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.data.matrices import check_columns, checked_csr, feature_tensor
from graphdrop.io.memory import check_bytes, most_bytes

_MASKS: Final = ("train_masks", "val_masks", "test_masks")
_KINDS: Final = {"biuf": "numbers", "iu": "integers", "b": "booleans"}


class Use(IntEnum):
    """The extra bytes per entry that building a graph takes, by use.

    That is its copy in the type that is handed out and, for edges, what it takes to sort and to
    mirror them, as measured: 106 bytes for either end of an edge.
    """

    MASKS = 1
    FEATURES = 4
    LABELS = 8
    COLUMNS = 16
    EDGES = 112
    ADJACENCY = 224


class Archive:
    """The numeric arrays of an archive by name; errors name the file and the array."""

    def __init__(self, stream: IO[bytes], name: str, most: int) -> None:
        self.name = name
        self.most = most
        self._taken = 0
        if stream.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
            raise ValueError(f"{name} holds a single array: it takes an .npz archive of several")
        try:
            self._archive = zipfile.ZipFile(stream)
        except Exception as error:  # a broken archive may raise nearly anything
            raise ValueError(
                f"{name} is not an .npz archive, or is cut short: fetch or save it again"
            ) from error
        self._members = {
            member.filename.removesuffix(".npy"): member for member in self._archive.infolist()
        }
        self.keys = frozenset(self._members)

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *exception: object) -> None:
        self._archive.close()

    @property
    def free(self) -> int:
        """Bytes that may still be taken."""
        return self.most - self._taken

    def array(self, key: str, sizes: tuple[int | None, ...], kinds: str, use: Use) -> NDArray[Any]:
        """The array `key`; `kinds` are numpy's letters of the types it may have.

        `sizes` is its shape, with None where any size will do.
        """
        if key not in self.keys:
            raise ValueError(f"{self.name} has no array {key}: add it")
        shape, dtype = self.read_header(key)
        fits = len(shape) == len(sizes) and all(
            size in (None, found) for size, found in zip(sizes, shape, strict=True)
        )
        if not fits or dtype.kind not in kinds:
            takes = ", ".join("any" if size is None else str(size) for size in sizes)
            raise ValueError(
                f"{self.name} has an array {key} of shape {shape} and type {dtype}: "
                f"it takes {_KINDS[kinds]} of shape ({takes}), to agree with the other arrays"
            )
        self._taken += math.prod(shape) * (dtype.itemsize + use)
        check_bytes(f"{self.name}, with its array {key} of shape {shape},", self._taken, self.most)
        with self._name_errors(key), self._archive.open(self._members[key]) as stream:
            return npy.read_array(stream, allow_pickle=False)

    def read_header(self, key: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """The shape and type in an array's header, which must agree with the size of the member."""
        with self._name_errors(key):
            return _read_header(self._archive, self._members[key])

    @contextmanager
    def _name_errors(self, key: str) -> Iterator[None]:
        """Name the array in an error; a damaged archive may raise nearly anything."""
        try:
            yield
        except Exception as error:
            raise ValueError(
                f"{self.name} has an array {key} that is damaged or not numbers ({error}): "
                "save it again"
            ) from error


def _read_header(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo
) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # The others are unpacked without a bound on what comes out.
        raise ValueError("its compression is not one that numpy writes")
    with archive.open(member) as stream:
        if npy.read_magic(stream) != (1, 0):
            raise ValueError("its header is not that of an array of numbers")
        shape, _, dtype = npy.read_array_header_1_0(stream)
        size = member.file_size - stream.tell()
    wrong = min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size
    if wrong and not dtype.hasobject:
        raise ValueError(f"its shape is {shape} and it has {size} bytes")
    return shape, dtype


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
    nodes = archive.read_header("node_features")[0][:1]
    labels = archive.array("node_labels", nodes, "iu", Use.LABELS)
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
