"""`Store`: a graph on disk, opened as memory maps."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.feature_store import FeatureStore, TensorAttr
from torch_geometric.data.graph_store import EdgeAttr, EdgeLayout, GraphStore

from graphdrop.data.names import Names
from graphdrop.data.store.manifest import MANIFEST, MASKS, Manifest, map_array
from graphdrop.graph import Graph, Normalization, stored
from graphdrop.io.files import expand_path
from graphdrop.io.memory import free_bytes

SHARE = 4
"""Arrays up to this part of the free memory are mapped copy-on-write; the system refuses more."""


class Store(FeatureStore, GraphStore):  # type: ignore[misc]
    """A graph on disk that `graphdrop data convert` wrote, opened without reading it.

    `load_dataset(folder)` opens it with its split. It is also a PyG `FeatureStore` and
    `GraphStore` of one kind of nodes, which loaders of PyG and of other engines read; it cannot be
    written to.

    Args:
        folder: the store.

    Example:
        >>> import tempfile
        >>> from graphdrop.data.store import convert
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store(convert("synthetic", f"{folder}/store"))
        ...     rows = store.get_tensor(group_name=None, attr_name="x", index=torch.tensor([3, 5]))
        ...     store.num_nodes, rows.shape
        (2708, torch.Size([2, 1433]))
    """

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self.path = expand_path(folder)
        self.manifest = Manifest.read(self.path)
        self._tensors: dict[str, Tensor] = {}
        self._data: Data | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.manifest.nodes

    @property
    def num_edges(self) -> int:
        """Number of directed edges, without the self-loops that layers add."""
        return self.manifest.edges

    def tensor(self, name: str) -> Tensor:
        """An array of the store as a tensor on its memory map."""
        if name not in self._tensors:
            if name not in self.manifest.arrays:
                known = ", ".join(self.manifest.arrays)
                raise KeyError(f"{name!r} is not in {self.path}, which has {known}")
            about = self.manifest.arrays[name]
            size = np.dtype(about.dtype).itemsize * int(np.prod(about.shape, dtype=np.int64))
            array = map_array(self.path, name, about, writable=size < free_bytes() // SHARE)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of an array that is read-only
                self._tensors[name] = torch.from_numpy(array)
            tensor = self._tensors[name]
            tensor.stored_checksum = tensor._version, about.sha256  # type: ignore[attr-defined]
        return self._tensors[name]

    @property
    def x(self) -> Tensor:
        """The features `[n, f]`; sparse if they were."""
        if "x" in self.manifest.arrays:
            return self.tensor("x")
        if "x" not in self._tensors:
            pointers, columns, values = (
                self.tensor(f"x_{part}") for part in ("indptr", "indices", "values")
            )
            size = self.num_nodes, self.manifest.features
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # of sparse tensors being new
                    x = torch.sparse_csr_tensor(
                        pointers, columns, values, size, check_invariants=True
                    )
            except RuntimeError as error:
                raise self._wrong("x_indices") from error
            self._tensors["x"] = x
        return self._tensors["x"]

    def data(self) -> Data:
        """The graph as a PyG `Data` of memory-mapped tensors."""
        if self._data is None:
            edge_index = self.tensor("edge_index")
            data = Data(x=self.x, edge_index=edge_index, y=self.tensor("y"))
            weight = None
            if "edge_weight" in self.manifest.arrays:
                weight = data.edge_weight = self.tensor("edge_weight")
            for name in MASKS:
                if name in self.manifest.arrays:
                    data[name] = self.tensor(name)
            if "row" in self.manifest.arrays:  # answers have the order of the table's rows
                rows = self.tensor("row")
                if not 0 <= int(rows.min()) <= int(rows.max()) < self.num_nodes:
                    raise self._wrong("row")
                data.names = Names(rows=rows)
            folder = self.path  # a store of its own: this one would keep the tensor alive
            stored.remember(edge_index, weight, lambda: Store(folder).graph(Normalization.NONE))
            self._data = data
        return self._data

    def graph(self, normalization: Normalization | str = Normalization.SYM) -> Graph:
        """The graph with self-loops, from the stored order of its edges."""
        names = ("indptr", "indices", "t_indptr", "t_indices", "t_edge")
        arrays = {name: self._edges(name) for name in names}
        self._edges("edge_index")  # which the model is called with
        entries = len(arrays["indices"])
        weighted = "weight" in self.manifest.arrays
        weight = self.tensor("weight") if weighted else torch.ones(entries)
        graph = Graph(
            indptr=arrays["indptr"],
            indices=arrays["indices"],
            t_indptr=arrays["t_indptr"],
            t_indices=arrays["t_indices"],
            t_edge=arrays["t_edge"],
            weight=weight,
            value=weight,
            normalization=Normalization.NONE,
            rank=self.tensor("rank") if "rank" in self.manifest.arrays else None,
        )
        return graph.normalized(normalization)

    def _edges(self, name: str) -> Tensor:
        """An array of the edges; raises if it names nodes or edges that are not there."""
        array, entries = self.tensor(name), len(self.tensor("indices"))
        if name in ("indptr", "t_indptr"):
            outside = int(array[0]) or int(array[-1]) != entries or bool((array.diff() < 0).any())
        elif outside := bool(array.numel()):
            low, high = map(int, array.aminmax())
            outside = low < 0 or high >= (entries if name == "t_edge" else self.num_nodes)
        if outside:
            raise self._wrong(name)
        return array

    def check_labels(self, nodes: Tensor) -> None:
        """Raise if one of these nodes, `[n]` bool, has no class of the graph."""
        labels = self.tensor("y")[nodes]
        if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < self.manifest.classes:
            raise self._wrong("y")

    def _wrong(self, name: str) -> ValueError:
        return ValueError(
            f"{self.path / name}.npy has entries outside of the graph: convert the graph again"
        )

    def verify(self) -> None:
        """Compare every file with its checksum; raise if one differs."""
        for name, about in self.manifest.arrays.items():
            map_array(self.path, name, about, writable=False)
            with (self.path / f"{name}.npy").open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != about.sha256:
                raise ValueError(
                    f"{self.path / name}.npy has sha256 {found}, and the store was written with "
                    f"{about.sha256}: it was changed or damaged; convert the graph again"
                )
        self.graph(Normalization.NONE)
        labels = self.tensor("y")
        if len(labels) and not -1 <= int(labels.min()) <= int(labels.max()) < self.manifest.classes:
            raise self._wrong("y")

    def __repr__(self) -> str:
        about = self.manifest
        size = f"nodes={about.nodes}, edges={about.edges}, features={about.features}"
        return f"Store({str(self.path)!r}, {size})"

    # PyG's FeatureStore

    def _get_tensor(self, attr: TensorAttr) -> Tensor | None:
        if attr.group_name is not None or attr.attr_name not in self._names():
            return None
        tensor = self.x if attr.attr_name == "x" else self.tensor(attr.attr_name)
        index = attr.index
        if index is None or (isinstance(index, slice) and index == slice(None)):
            return tensor
        if isinstance(index, np.ndarray):
            index = torch.from_numpy(index)
        return tensor[index]

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        if attr.attr_name not in self._names():
            return None
        tensor = self.x if attr.attr_name == "x" else self.tensor(attr.attr_name)
        return tuple(tensor.shape)

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """Features, labels and masks, of one group of nodes."""
        return [TensorAttr(group_name=None, attr_name=name) for name in self._names()]

    def _names(self) -> list[str]:
        return ["x", "y", *(name for name in MASKS if name in self.manifest.arrays)]

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:  # noqa: ARG002
        raise self._read_only()

    def _remove_tensor(self, attr: TensorAttr) -> bool:  # noqa: ARG002
        raise self._read_only()

    # PyG's GraphStore

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[Tensor, Tensor] | None:
        if edge_attr.edge_type is not None:
            return None
        if edge_attr.layout is EdgeLayout.COO:
            source, destination = self._edges("edge_index")
            return source, destination
        if edge_attr.layout is EdgeLayout.CSC:
            return self._by("indptr", "indices")
        column, pointer = self._by("t_indptr", "t_indices")
        return pointer, column

    def _by(self, pointer: str, other: str) -> tuple[Tensor, Tensor]:
        """The sorted edges without the self-loops that were added; no sort."""
        ends, entries = self._edges(pointer), self._edges(other)
        if len(entries) == self.num_edges:
            return entries.long(), ends.long()
        row = torch.arange(self.num_nodes).repeat_interleave(ends.diff().long())
        source, destination = self._edges("edge_index")
        own = torch.zeros(self.num_nodes, dtype=torch.bool)
        own[source[source == destination]] = True
        kept = (row != entries) | own[row]
        count = torch.bincount(row[kept], minlength=self.num_nodes)
        return entries[kept].long(), torch.cat([count.new_zeros(1), count.cumsum(0)])

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """The edges by destination (CSC) and as a list (COO)."""
        size = self.num_nodes, self.num_nodes
        return [EdgeAttr(None, layout, size=size) for layout in (EdgeLayout.CSC, EdgeLayout.COO)]

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:  # noqa: ARG002
        raise self._read_only()

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:  # noqa: ARG002
        raise self._read_only()

    def _read_only(self) -> ValueError:
        return ValueError(f"{self.path} is read-only: convert the changed graph to another store")


def is_store(path: str | Path) -> bool:
    """Whether this is the folder of a store."""
    return (expand_path(path) / MANIFEST).is_file()


def stored_checksum(tensor: Tensor) -> str | None:
    """The sha256 that a store was written with, of a tensor that it opened; None of others."""
    version, sha256 = getattr(tensor, "stored_checksum", (None, None))
    return sha256 if version == tensor._version else None
