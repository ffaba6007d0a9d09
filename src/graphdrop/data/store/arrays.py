"""Graphs as plain arrays: the folder layout of OGB, and an edge list with a table of features."""

from __future__ import annotations

import gzip
import hashlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from graphdrop.io.files import check_regular
from graphdrop.io.memory import check_bytes

OGB_EDGES = "raw/edge.csv.gz"
_PARTS = {"train_mask": "train", "val_mask": "valid", "test_mask": "test"}


def is_ogb(folder: Path) -> bool:
    """Whether this folder has the layout of an OGB dataset for node prediction."""
    return (folder / OGB_EDGES).is_file()


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

    data = graph_of(
        read(OGB_EDGES, np.int64),
        read("raw/node-feat.csv.gz", np.float32),
        read("raw/node-label.csv.gz", np.float64),
    )
    splits = sorted(path.parent for path in folder.glob("split/*/train.csv.gz"))
    if len(splits) > 1:
        names = ", ".join(path.name for path in splits)
        raise ValueError(f"{folder} has the splits {names}: remove all but one of the folders")
    for split in splits:
        for mask, part in _PARTS.items():
            nodes = read(f"split/{split.name}/{part}.csv.gz", np.int64)
            data[mask] = _mask(nodes.reshape(-1), len(data.y), f"{split}/{part}.csv.gz")
            data[mask] &= data.y >= 0
    return data, sums


def graph_of(edges: NDArray[Any], features: NDArray[Any], labels: NDArray[Any]) -> Data:
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
    if (labels[known] >= 2**31).any():
        raise ValueError(f"a label is {labels[known].max()}: number the classes from 0")
    whole = np.where(known, labels, -1).astype(np.int64)
    if (known & (whole != labels)).any():
        raise ValueError("a label is not a whole number: number the classes from 0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of an array that is read-only
        x = torch.from_numpy(features)
    edge_index = torch.from_numpy(np.ascontiguousarray(edges.T, dtype=np.int64))
    return Data(x=x, edge_index=edge_index, y=torch.from_numpy(whole))


def _mask(nodes: NDArray[Any], count: int, where: str) -> Tensor:
    mask = torch.zeros(count, dtype=torch.bool)
    if len(nodes) and (nodes.min() < 0 or nodes.max() >= count):
        raise ValueError(f"{where} has node {nodes.max()}, outside 0..{count - 1}")
    mask[torch.from_numpy(nodes)] = True
    return mask


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
        if path.suffix == ".npy":
            array = npy.open_memmap(path, mode="r")
            if array.dtype.kind not in "biuf":
                raise ValueError(f"it has type {array.dtype}")
            return array, sha256
        return _read_text(path, np.dtype(dtype), most), sha256
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
    parts, width, taken = list[NDArray[Any]](), None, 0
    with opener(path, "rt", encoding="utf-8") as file:
        for lines in _lines(file, most):
            text = [line for line in lines if line.strip()]
            if not text:
                continue
            part = np.loadtxt(text, dtype, delimiter=delimiter, ndmin=2, comments=None)
            width = width or part.shape[1]
            if part.shape[1] != width:
                raise ValueError(f"lines of {width} and of {part.shape[1]} numbers")
            parts.append(part)
            taken += part.nbytes
            check_bytes(f"{path}: its numbers", 2 * taken, most)
    return np.concatenate(parts) if parts else np.empty((0, 0), dtype)


_AT_ONCE = 1 << 20
_BYTES_PER_CHARACTER = 16
"""What the numbers of a line take while they are read, and its text."""


def _lines(file: IO[str], most: int) -> Iterator[list[str]]:
    """The lines of a text, some at a time; one that would not fit into memory is refused."""
    begun = list[str]()
    while text := file.read(_AT_ONCE):
        whole, end, rest = text.rpartition("\n")
        if end:
            yield "".join([*begun, whole]).split("\n")
            begun = []
        begun.append(rest)
        length = sum(map(len, begun))
        check_bytes(f"a line of {length} characters or more", _BYTES_PER_CHARACTER * length, most)
    yield ["".join(begun)]
