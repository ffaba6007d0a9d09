"""Reading `.npz` archives with a memory limit.

Shape and type of an array are checked in its header before it is unpacked, because a few megabytes
of archive may hold terabytes of zeros.
"""

import math
import zipfile
from enum import IntEnum
from typing import IO, Any, Final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from graphdrop.io.memory import check_bytes

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

    def rows(self, key: str) -> int | None:
        """The first size that the array `key` declares; None where it declares none."""
        try:
            return self._declared(key)[0][0]
        except Exception:  # whatever it is, reading the array says it
            return None

    def array(self, key: str, sizes: tuple[int | None, ...], kinds: str, use: Use) -> NDArray[Any]:
        """The array `key`; `kinds` are numpy's letters of the types it may have.

        `sizes` is its shape, with None where any size will do.
        """
        if key not in self.keys:
            raise ValueError(f"{self.name} has no array {key}: add it")
        try:
            shape, dtype = self._declared(key)
        except Exception as error:
            raise self._damaged(key, error) from error
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
        try:
            with self._archive.open(self._members[key]) as stream:
                return npy.read_array(stream, allow_pickle=False)
        except Exception as error:
            raise self._damaged(key, error) from error

    def _declared(self, key: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """The shape and type in an array's header, which must agree with the size of the member."""
        member = self._members[key]
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # The others are unpacked without a bound on what comes out.
            raise ValueError("its compression is not one that numpy writes")
        with self._archive.open(member) as stream:
            if npy.read_magic(stream) != (1, 0):
                raise ValueError("its header is not that of an array of numbers")
            shape, _, dtype = npy.read_array_header_1_0(stream)
            size = member.file_size - stream.tell()
        wrong = min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size
        if wrong and not dtype.hasobject:
            raise ValueError(f"its shape is {shape} and it has {size} bytes")
        return shape, dtype

    def _damaged(self, key: str, error: Exception) -> ValueError:
        return ValueError(
            f"{self.name} has an array {key} that is damaged or not numbers ({error}): "
            "save it again"
        )
