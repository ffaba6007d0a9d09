"""The layout of a store: which arrays it has, and the manifest that describes them.

A store is a folder of `.npy` files and `manifest.json`, which is written last. Names of files are
those of the arrays here, never those that a manifest gives.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError, model_validator

from graphdrop.data.edges import EdgeChanges
from graphdrop.io.files import check_regular

MANIFEST: Final = "manifest.json"
MANIFEST_BYTES: Final = 1 << 20
BLOCK, BLOCKS = 4096, 64
"""Bytes and number of the parts of a file that are compared with a checksum when it is opened."""
MASKS: Final = ("train_mask", "val_mask", "test_mask")
INDICES: Final = ("int32", "int64")
SORTED: Final = ("indices", "t_indices", "t_edge", "rank", "weight")
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
NEEDED: Final = ("y", "edge_index", "indptr", "indices", "t_indptr", "t_indices", "t_edge")

Count = Annotated[int, Field(strict=True, ge=0, lt=2**48)]
Digest = Annotated[str, Field(min_length=64, max_length=64)]


class StoredArray(BaseModel, frozen=True, extra="forbid"):
    """Type, shape and checksums of an array."""

    dtype: str
    shape: tuple[Count, ...]
    sha256: Digest
    """The checksum of the whole file, which `Store.verify` compares."""
    samples: Digest
    """The checksum of `BLOCKS` parts of the file, which opening compares."""


class Manifest(BaseModel, frozen=True, extra="forbid"):
    """The contents of `manifest.json`; the shapes of the arrays agree."""

    format: Literal["graphdrop-store"] = "graphdrop-store"
    version: Literal[2] = 2
    nodes: Count
    edges: Count
    """Number of columns of `edge_index`."""
    features: Count
    classes: Count
    arrays: dict[str, StoredArray]
    origin: dict[str, str] = {}
    """The sha256 of every file that the graph came from."""
    changes: EdgeChanges | None = None
    """What was done to the edges of those files."""

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """The manifest of a store; errors name the file."""
        path = folder / MANIFEST
        try:
            if check_regular(path).stat().st_size > MANIFEST_BYTES:
                raise ValueError("it is too large for one")
            return cls.model_validate_json(path.read_bytes())
        except (OSError, ValueError) as error:
            why: object = error
            if isinstance(error, ValidationError):
                first = error.errors(include_url=False)[0]
                where = ".".join(map(str, first["loc"]))
                why = (
                    f"{where} is {first['input']!r:.80}: {first['msg']}" if where else first["msg"]
                )
            raise ValueError(
                f"{path} is not the manifest of a graph store ({why}): convert the graph again "
                "with `graphdrop data convert`"
            ) from error

    @model_validator(mode="after")
    def _check_arrays(self) -> Self:
        n, e, stored = self.nodes, self.edges, self.arrays
        for name, array in stored.items():
            if name not in DTYPES or array.dtype not in DTYPES[name]:
                raise ValueError(f"it has an array {name[:40]!r} of type {array.dtype[:40]!r}")
        missing = [name for name in NEEDED if name not in stored]
        if missing or ("x" in stored) == ("x_values" in stored):
            raise ValueError(f"it has no {', '.join(missing) or 'features, or two kinds of them'}")
        sorted_edges = stored["indices"].shape
        nonzeros = stored["x_values"].shape if "x_values" in stored else (0,)
        expected: dict[str, tuple[int, ...]] = {
            "x": (n, self.features),
            "edge_index": (2, e),
            "edge_weight": (e,),
            **dict.fromkeys(("x_indptr", "indptr", "t_indptr"), (n + 1,)),
            **dict.fromkeys(("x_indices", "x_values"), nonzeros),
            **dict.fromkeys(("y", "row"), (n,)),
            **dict.fromkeys(SORTED, sorted_edges),
        }
        if MASKS[0] in stored:  # one split or several, the same number in all three masks
            splits = stored[MASKS[0]].shape[1:2]
            expected |= dict.fromkeys(MASKS, (n, *splits))
        for name, array in stored.items():
            fits = array.shape == expected.get(name)
            if not fits or len(sorted_edges) != 1 or not e <= sorted_edges[0] <= e + n:
                raise ValueError(f"{name} has shape {array.shape}, which does not fit the others")
        if sum(name in stored for name in MASKS) not in (0, len(MASKS)):
            raise ValueError("it has some of the three masks")
        if len({stored[name].dtype for name in ("indptr", "indices", "t_indices", "t_edge")}) > 1:
            raise ValueError("the arrays of sorted edges have different types")
        return self


def map_array(folder: Path, name: str, about: StoredArray, *, writable: bool) -> NDArray[Any]:
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
            expected = f"{about.dtype} {about.shape}"
            raise ValueError(f"its header says {dtype} {shape}, the manifest {expected}")
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
