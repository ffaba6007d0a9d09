"""`convert` and `write_store`: any graph that can be loaded, as a store on disk.

Beside what `load_dataset` reads these are the folders of OGB, and an edge list with a table of
features and a column of labels.
"""

from __future__ import annotations

import copy
import gzip
import hashlib
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.data.edges import EdgeChanges
from graphdrop.data.names import Names
from graphdrop.data.store.manifest import (
    MANIFEST,
    MASKS,
    Manifest,
    StoredArray,
    samples_sha256,
)
from graphdrop.data.store.store import is_store
from graphdrop.graph import Graph, Normalization
from graphdrop.io.files import check_regular, expand_path, replace_file, sync_folder
from graphdrop.io.locks import LOCK, folder_lock
from graphdrop.io.memory import check_bytes, most_bytes

OGB_EDGES = "raw/edge.csv.gz"
AT_ONCE = 1 << 26
"""Bytes of an array that are written at once."""
_CHARACTERS = 1 << 20
"""Characters of a text file that are read at once."""
_BYTES_PER_CHARACTER = 16
"""What the numbers of a line take while they are read, and its text."""


def convert(
    source: str | Path | Data,
    folder: str | Path,
    *,
    features: str | Path | None = None,
    labels: str | Path | None = None,
    label: str | None = None,
    id: str | None = None,  # noqa: A002 - as load_tables names it
    root: str | Path | None = None,
    directed: bool = False,
    max_bytes: int | None = None,
) -> Path:
    """Write a graph as a store: memory-mapped arrays with their edges sorted.

    Args:
        source: what `load_dataset` takes; the folder of an OGB dataset (`raw/edge.csv.gz`, ...);
            or, with `features` and `labels`, a list of edges: two columns, source and destination.
        folder: the store, which must not exist yet.
        features: a table with a row of numbers per node, `.npy` (not read into memory), `.csv`,
            `.tsv` or `.csv.gz`, without a header.
        labels: a column of classes, -1 or nan for none.
        label: of a folder of tables, the column of classes, as for `load_tables`.
        id: of a folder of tables, the column of ids.
        root: as for `load_dataset`.
        directed: of an edge list or an OGB dataset, keep edges as they are listed; otherwise they
            become undirected, without repeats and self-loops, as those of all files. A `Data` keeps
            its edges.
        max_bytes: as for `load_dataset`.

    Returns:
        The folder.

    Example:
        >>> import tempfile
        >>> from graphdrop import load_dataset
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     load_dataset(convert("synthetic", f"{folder}/store")).data.num_nodes
        2708
    """
    # the modules that open stores
    from graphdrop.data.dataset import build_dataset, load_dataset  # noqa: PLC0415
    from graphdrop.data.tables import load_tables  # noqa: PLC0415
    from graphdrop.data.tables.files import is_tables  # noqa: PLC0415

    if (features is None) != (labels is None):
        given, missing = ("features", "labels") if labels is None else ("labels", "features")
        raise ValueError(f"{given} is given without {missing}: an edge list takes both")
    given_data = isinstance(source, Data)
    path, most = Path() if given_data else expand_path(source), most_bytes(max_bytes)
    arrays = features is not None or (not given_data and is_ogb(path))
    if directed and not (arrays or given_data):
        raise ValueError(
            f"source is {source}; directed is for an edge list with features and labels, the "
            "folder of an OGB dataset, or a Data: leave it"
        )
    target = expand_path(folder)
    if target.exists():
        raise ValueError(f"{target} exists already: give another name, or remove it first")
    if (label or id) and (given_data or not is_tables(path)):
        raise ValueError(f"source is {source}; label and id are for a folder of tables: leave them")
    if label or id:
        dataset = load_tables(path, label=label, id=id, max_bytes=max_bytes)
    elif arrays:
        if features is not None and labels is not None:
            data, sums = read_edge_list(path, expand_path(features), expand_path(labels), most)
        else:
            data, sums = read_ogb(path, most)
        dataset = build_dataset(
            path.stem, data, "default", 0, most=most, checksums=sums, undirected=not directed
        )
    else:
        if not given_data and is_store(path):
            raise ValueError(f"{path} is a store already: copy its folder")
        dataset = load_dataset(source, root, max_bytes=max_bytes)
    if not dataset.num_classes:
        raise ValueError(
            f"{source} has numbers as labels, and a store takes classes: train on the tables "
            "themselves, which --dataset takes as well"
        )
    data = copy.copy(dataset.data)
    for name in MASKS:  # all splits that came with it; where none did, a store draws them anew
        del data[name]
    data.update(dataset.stored_masks)
    sums, changes = dict(dataset.checksums), dataset.changes
    return write_store(target, data, dataset.num_classes, origin=sums, changes=changes)


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
            manifest = Manifest(
                nodes=data.y.shape[0],
                edges=data.edge_index.shape[1],
                features=data.x.shape[1],
                classes=num_classes,
                arrays={name: _write_array(partial, name, a) for name, a in _list_arrays(data)},
                origin=dict(origin or {}),
                changes=changes,
            )
            replace_file(partial / MANIFEST, manifest.model_dump_json(indent=1).encode() + b"\n")
            (partial / LOCK).unlink(missing_ok=True)
            partial.rename(target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    sync_folder(target.parent)
    return target


def _list_arrays(data: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of a store, one by one."""
    if data.x.layout is torch.strided:
        yield "x", data.x.numpy()
    else:
        matrix = data.x.to_sparse_csr()
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
        data.edge_index, len(data.y), weight, normalization=Normalization.ROW, self_loops=True
    )
    for name in ("indptr", "indices", "t_indptr", "t_indices", "t_edge"):
        yield name, getattr(graph, name).numpy()
    if graph.rank is not None:
        yield "rank", graph.rank.numpy()
    if weight is not None:
        yield "weight", graph.weight.numpy()


def _write_array(folder: Path, name: str, array: NDArray[Any]) -> StoredArray:
    """Write one array part by part, so that a memory map is not read into memory whole."""
    kind = np.dtype(np.float32) if name == "x" else array.dtype
    path, digest = folder / f"{name}.npy", hashlib.sha256()
    with path.open("wb") as file:
        header = {"descr": npy.dtype_to_descr(kind), "fortran_order": False, "shape": array.shape}
        npy.write_array_header_1_0(file, header)
        file.flush()
        digest.update(path.read_bytes())
        # The two long rows of `edge_index` are written one after the other.
        for part in array if name == "edge_index" else [array]:
            rows = max(1, AT_ONCE // max(1, part[:1].nbytes))
            for first in range(0, len(part), rows):
                content = np.ascontiguousarray(part[first : first + rows], dtype=kind).tobytes()
                digest.update(content)
                file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return StoredArray(
        dtype=kind.name,
        shape=array.shape,
        sha256=digest.hexdigest(),
        samples=samples_sha256(path),
    )


def is_ogb(folder: Path) -> bool:
    """Whether this folder has the layout of an OGB dataset for node prediction."""
    return (folder / OGB_EDGES).is_file()


def read_edge_list(
    edges: Path, features: Path, labels: Path, most: int
) -> tuple[Data, dict[str, str]]:
    """The graph of a list of edges, a table of features and a column of labels; and checksums."""
    kinds = ((edges, int), (features, float), (labels, float))
    arrays, sums = zip(*(read_array(file, kind, most) for file, kind in kinds), strict=True)
    return graph_of_arrays(*arrays), dict(zip((file.name for file, _ in kinds), sums, strict=True))


def read_ogb(folder: Path, most: int) -> tuple[Data, dict[str, str]]:
    """The graph of an OGB folder, and the checksums of its files.

    `raw/edge.csv.gz` has two columns, source and destination; `raw/node-feat.csv.gz` and
    `raw/node-label.csv.gz` have a row per node; `split/*/train.csv.gz`, `valid.csv.gz` and
    `test.csv.gz` list nodes.
    """
    sums: dict[str, str] = {}

    def read(name: str, dtype: type) -> NDArray[Any]:
        array, sums[name] = read_array(folder / name, dtype, most)
        return array

    data = graph_of_arrays(
        read(OGB_EDGES, np.int64),
        read("raw/node-feat.csv.gz", np.float32),
        read("raw/node-label.csv.gz", np.float64),
    )
    splits = sorted(path.parent for path in folder.glob("split/*/train.csv.gz"))
    if len(splits) > 1:
        names = ", ".join(path.name for path in splits)
        raise ValueError(f"{folder} has the splits {names}: remove all but one of the folders")
    for split in splits:
        for mask, part in zip(MASKS, ("train", "valid", "test"), strict=True):
            nodes = read(f"split/{split.name}/{part}.csv.gz", np.int64).reshape(-1)
            count = len(data.y)
            if len(nodes) and (nodes.min() < 0 or nodes.max() >= count):
                outside = f"has node {nodes.max()}, outside 0..{count - 1}"
                raise ValueError(f"{split}/{part}.csv.gz {outside}")
            data[mask] = torch.zeros(count, dtype=torch.bool)
            data[mask][torch.from_numpy(nodes)] = True
            data[mask] &= data.y >= 0
    return data, sums


def graph_of_arrays(edges: NDArray[Any], features: NDArray[Any], labels: NDArray[Any]) -> Data:
    """A `Data` from edges `[E, 2]`, features `[n, f]` and labels `[n]`, NaN or -1 for none."""
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise ValueError(f"the edges have shape {edges.shape}; they take two columns.")
    if edges.dtype != np.int64 and (edges.astype(np.int64) != edges).any():
        raise ValueError("an edge has an end that is no whole number: number the nodes from 0")
    if features.ndim != 2:
        raise ValueError(f"the features have shape {features.shape}; they take a row per node.")
    labels = labels.reshape(-1)
    if len(labels) != len(features):
        raise ValueError(
            f"there are {len(labels)} labels and {len(features)} rows of features: give a row of "
            "each for every node"
        )
    known = np.isfinite(labels) & (labels >= 0)
    wrong = labels[known & ((labels >= 2**31) | (labels != np.rint(labels)))]
    if len(wrong):
        raise ValueError(f"a label is {wrong[0]}, not a class: number the classes from 0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of an array that is read-only
        x = torch.from_numpy(features)
    edge_index = torch.from_numpy(np.ascontiguousarray(edges.T, dtype=np.int64))
    y: Tensor = torch.from_numpy(np.where(known, labels, -1).astype(np.int64))
    return Data(x=x, edge_index=edge_index, y=y)


def read_array(path: Path, dtype: type, most: int) -> tuple[NDArray[Any], str]:
    """An array from `.npy` (as a memory map), or from `.csv`, `.tsv` or `.csv.gz` without a header.

    Args:
        path: the file.
        dtype: the type of the numbers of a text file.
        most: the largest number of bytes that a text file may take in memory.

    Returns:
        The array, and the sha256 of the file.
    """
    try:
        with check_regular(path).open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        if path.suffix != ".npy":
            return _read_text(path, np.dtype(dtype), most), sha256
        array = npy.open_memmap(path, mode="r")
        if array.dtype.kind not in "biuf":
            raise ValueError(f"it has type {array.dtype}")
        return array, sha256
    except Exception as error:  # a broken header or archive may raise nearly anything
        if isinstance(error, OSError) and error.strerror:
            raise ValueError(f"{path} cannot be read ({error.strerror})") from error
        raise ValueError(
            f"{path} is not a table of numbers ({error}): give .npy, or .csv, .tsv or .csv.gz "
            "without a header"
        ) from error


def _read_text(path: Path, dtype: np.dtype[Any], most: int) -> NDArray[Any]:
    delimiter = "\t" if ".tsv" in path.suffixes else ","
    opener = gzip.open if path.suffix == ".gz" else open
    parts, taken = list[NDArray[Any]](), 0
    with opener(path, "rt", encoding="utf-8") as file:
        for lines in _iterate_lines(file, most):
            text = [line for line in lines if line.strip()]
            if not text:
                continue
            part = np.loadtxt(text, dtype, delimiter=delimiter, ndmin=2, comments=None)
            parts.append(part)
            taken += part.nbytes
            check_bytes(f"{path}: its numbers", 2 * taken, most)
    return np.concatenate(parts) if parts else np.empty((0, 0), dtype)


def _iterate_lines(file: IO[str], most: int) -> Iterator[list[str]]:
    """The lines of a text, some at a time; one that would not fit into memory is refused."""
    begun = ""
    while text := file.read(_CHARACTERS):
        *lines, begun = (begun + text).split("\n")
        yield lines
        needed = _BYTES_PER_CHARACTER * len(begun)
        check_bytes(f"a line of {len(begun)} characters or more", needed, most)
    yield [begun]
