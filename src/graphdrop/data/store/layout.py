"""The layout of a store: which arrays it has, and the manifest that describes them.

A store is a folder of `.npy` files and `manifest.json`, which is written last. Names of files are
those of the arrays here, never those that a manifest gives.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from graphdrop.io.files import check_regular

FORMAT: Final = "graphdrop-store"
VERSION: Final = 2
MANIFEST: Final = "manifest.json"
MANIFEST_BYTES: Final = 1 << 20
BLOCK, BLOCKS = 4096, 64
"""Bytes and number of the parts of a file that are compared with a checksum when it is opened."""
MASKS: Final = ("train_mask", "val_mask", "test_mask")
INDICES: Final = ("int32", "int64")
DTYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "x": ("float32",),
    "x_indptr": INDICES,
    "x_indices": INDICES,
    "x_values": ("float32",),
    "y": ("int64",),
    "edge_index": ("int64",),
    "edge_weight": ("float32",),
    **dict.fromkeys(MASKS, ("bool",)),
    "row": ("int64",),
    "indptr": INDICES,
    "indices": INDICES,
    "t_indptr": INDICES,
    "t_indices": INDICES,
    "t_edge": INDICES,
    "rank": ("int32",),
    "weight": ("float32",),
}
"""The arrays that a store may have, with the types they may be of.

`row` is the row of every node in the table that it came from. `indptr` to `weight` are the edges
sorted by destination and by source, self-loops included.
"""
CHANGES: Final = frozenset({"stored", "duplicates", "self_loops", "one_way"})
NEEDED: Final = ("y", "edge_index", "indptr", "indices", "t_indptr", "t_indices", "t_edge")


class About(NamedTuple):
    """Type, shape and checksums of an array."""

    dtype: str
    shape: tuple[int, ...]
    sha256: str
    """The checksum of the whole file, which `Store.verify` compares."""
    samples: str
    """The checksum of `BLOCKS` parts of the file, which opening compares."""


@dataclass(frozen=True)
class Manifest:
    """What `manifest.json` says."""

    nodes: int
    edges: int
    """Number of columns of `edge_index`."""
    features: int
    classes: int
    arrays: Mapping[str, About]
    origin: Mapping[str, str] = field(default_factory=dict)
    """The sha256 of every file that the graph came from."""
    changes: Mapping[str, int] | None = None
    """What was done to the edges of those files."""

    def as_json(self) -> str:
        """The text of the file."""
        arrays = {name: about._asdict() for name, about in self.arrays.items()}
        values = {
            "format": FORMAT,
            "version": VERSION,
            "nodes": self.nodes,
            "edges": self.edges,
            "features": self.features,
            "classes": self.classes,
            "arrays": arrays,
            "origin": dict(self.origin),
            "changes": None if self.changes is None else dict(self.changes),
        }
        return json.dumps(values, indent=1) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """The manifest of a store, checked; errors name the file."""
        path = folder / MANIFEST
        try:
            if check_regular(path).stat().st_size > MANIFEST_BYTES:
                raise ValueError("it is too large for one")
            values = json.loads(path.read_bytes())
            if not isinstance(values, dict) or values.get("format") != FORMAT:
                raise ValueError("it is of another format")
            if values.get("version") != VERSION:
                raise ValueError(
                    f"its version is {values.get('version')!r}, and this graphdrop reads {VERSION}"
                )
            return cls(
                nodes=_count(values, "nodes"),
                edges=_count(values, "edges"),
                features=_count(values, "features"),
                classes=_count(values, "classes"),
                arrays=_arrays(values),
                origin=_texts(values.get("origin")),
                changes=_changes(values.get("changes")),
            ).checked()
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
            raise ValueError(
                f"{path} is not the manifest of a graph store ({error}): convert the graph again "
                "with `graphdrop data convert`"
            ) from error

    def checked(self) -> Manifest:
        """Itself, if the shapes of its arrays agree."""
        n, e, stored = self.nodes, self.edges, self.arrays
        missing = [name for name in NEEDED if name not in stored]
        if missing or ("x" in stored) == ("x_values" in stored):
            raise ValueError(f"it has no {', '.join(missing) or 'features, or two kinds of them'}")
        sorted_edges = stored["indices"].shape
        nonzeros = stored["x_values"].shape if "x_values" in stored else (0,)
        expected: dict[str, tuple[int, ...]] = {
            "x": (n, self.features),
            "x_indptr": (n + 1,),
            "x_indices": nonzeros,
            "x_values": nonzeros,
            "y": (n,),
            "row": (n,),
            "edge_index": (2, e),
            "edge_weight": (e,),
            "indptr": (n + 1,),
            "t_indptr": (n + 1,),
            **dict.fromkeys(("indices", "t_indices", "t_edge", "rank", "weight"), sorted_edges),
        }
        for name, about in stored.items():
            if name in MASKS:
                same = stored.get(MASKS[0], about).shape == about.shape
                right = same and about.shape[:1] == (n,) and len(about.shape) in (1, 2)
            else:
                right = about.shape == expected[name]
            if not right or len(sorted_edges) != 1 or not e <= sorted_edges[0] <= e + n:
                raise ValueError(f"{name} has shape {about.shape}, which does not fit the others")
        if sum(name in stored for name in MASKS) not in (0, len(MASKS)):
            raise ValueError("it has some of the three masks")
        if len({stored[name].dtype for name in ("indptr", "indices", "t_indices", "t_edge")}) > 1:
            raise ValueError("the arrays of sorted edges have different types")
        return self


def mapped(folder: Path, name: str, about: About, *, writable: bool) -> NDArray[Any]:
    """An array as a memory map, after a check of header and size.

    Args:
        folder: the store.
        name: the array.
        about: what the manifest says of it.
        writable: map it copy-on-write, so that writing to it changes a private copy; otherwise
            writing to it ends the process.
    """
    path = folder / f"{name}.npy"
    try:
        with check_regular(path).open("rb") as file:
            version = npy.read_magic(file)
            if version != (1, 0):
                raise ValueError(f"version {version} of .npy")
            shape, fortran, dtype = npy.read_array_header_1_0(file, max_header_size=4096)
            start, size = file.tell(), os.fstat(file.fileno()).st_size
        if fortran or dtype != np.dtype(about.dtype) or tuple(shape) != about.shape:
            raise ValueError(f"its header says {dtype} {shape}, the manifest {about[:2]}")
        if size != start + dtype.itemsize * math.prod(shape):
            raise ValueError(f"it has {size} bytes")
        if samples_sha256(path) != about.samples:
            raise ValueError("it was changed or damaged: its checksum is another one")
    except Exception as error:  # a broken header may raise nearly anything
        raise ValueError(
            f"{path} is not the array that the store describes ({error}): convert the graph again"
        ) from error
    if not math.prod(shape):
        return np.empty(shape, dtype)
    mode = "c" if writable else "r"
    return np.memmap(path, dtype, mode, start, tuple(shape))  # type: ignore[call-overload, no-any-return]


def samples_sha256(path: Path) -> str:
    """The sha256 of parts that are spread evenly over a file; of all of it if it is small."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= BLOCK * BLOCKS:
            return hashlib.file_digest(file, "sha256").hexdigest()
        for number in range(BLOCKS):  # the first begins with the file, the last ends with it
            file.seek((size - BLOCK) * number // (BLOCKS - 1))
            digest.update(file.read(BLOCK))
    return digest.hexdigest()


def _count(values: Mapping[str, Any], name: str) -> int:
    value = values[name]
    if type(value) is not int or not 0 <= value < 2**48:
        raise ValueError(f"{name} is {value!r}")
    return value


def _arrays(values: Mapping[str, Any]) -> dict[str, About]:
    found = {}
    for name, about in dict(values["arrays"]).items():
        dtype, shape = about["dtype"], about["shape"]
        sums = [str(about[key]) for key in ("sha256", "samples")]
        sizes = isinstance(shape, list) and all(type(n) is int and 0 <= n < 2**48 for n in shape)
        known = name in DTYPES and dtype in DTYPES[name]
        if not known or not sizes or any(len(digest) != 64 for digest in sums):
            raise ValueError(f"the array {str(name)[:40]!r} is {str(about)[:200]}")
        found[name] = About(dtype, tuple(shape), *sums)
    return found


def _texts(values: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in dict(values or {}).items()}


def _changes(values: Any) -> dict[str, int] | None:
    if values is None:
        return None
    if not isinstance(values, dict) or set(values) != CHANGES:
        raise ValueError(f"changes is {str(values)[:200]}")
    return {name: _count(values, name) for name in values}
