"""Pickles as Python 2 wrote them, assembled instruction by instruction."""

import struct
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix


class Python2Pickle:
    """Pieces of a protocol 2 pickle with Python 2 strings; `file` makes a whole one of a piece."""

    NONE, FALSE, REDUCE, BUILD, NEWOBJ = b"N", b"\x89", b"R", b"b", b"\x81"

    @staticmethod
    def file(body: bytes) -> bytes:
        return b"\x80\x02" + body + b"."

    @staticmethod
    def integer(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    @staticmethod
    def string(value: bytes) -> bytes:
        return b"T" + struct.pack("<i", len(value)) + value

    @staticmethod
    def name(module: str, name: str) -> bytes:
        return f"c{module}\n{name}\n".encode()

    @staticmethod
    def tuple(*items: bytes) -> bytes:
        return b"(" + b"".join(items) + b"t"

    def list(self, values: Sequence[int]) -> bytes:
        return b"](" + b"".join(map(self.integer, values)) + b"e"

    def dtype(self, code: bytes, order: bytes = b"<") -> bytes:
        made = self.tuple(self.string(code), self.integer(0), self.integer(1))
        state = [self.integer(3), self.string(order), self.NONE, self.NONE, self.NONE]
        state += [self.integer(-1), self.integer(-1), self.integer(0)]
        return self.name("numpy", "dtype") + made + self.REDUCE + self.tuple(*state) + self.BUILD

    def raw_array(self, shape: Sequence[int], dtype: bytes, content: bytes) -> bytes:
        kind = self.name("numpy", "ndarray")
        made = self.tuple(kind, self.tuple(self.integer(0)), self.string(b"b"))
        sizes = self.tuple(*map(self.integer, shape))
        state = self.tuple(self.integer(1), sizes, dtype, self.FALSE, content)
        reconstruct = self.name("numpy.core.multiarray", "_reconstruct")
        return reconstruct + made + self.REDUCE + state + self.BUILD

    def array(self, array: NDArray[np.generic]) -> bytes:
        order, code = array.dtype.str[:1].encode(), array.dtype.str[1:].encode()
        return self.raw_array(array.shape, self.dtype(code, order), self.string(array.tobytes()))

    def csr(self, matrix: csr_matrix) -> bytes:
        state = self.string(b"_shape") + self.tuple(*map(self.integer, matrix.shape))
        for part in ("data", "indices", "indptr"):
            state += self.string(part.encode()) + self.array(getattr(matrix, part))
        kind = self.name("scipy.sparse.csr", "csr_matrix")
        return kind + b")" + self.NEWOBJ + b"}(" + state + b"u" + self.BUILD

    def adjacency(self, neighbours: Mapping[int, Sequence[int]]) -> bytes:
        factory = self.tuple(self.name("__builtin__", "list"))
        items = (self.integer(node) + self.list(values) for node, values in neighbours.items())
        made = self.name("collections", "defaultdict") + factory + self.REDUCE
        return made + b"(" + b"".join(items) + b"u"


def planetoid_files(
    name: str, nodes: int, train: int, tests: Sequence[int], known: int
) -> dict[str, bytes]:
    """The eight files of a ring; feature 0 of a node is its id plus one, its class id modulo 3.

    Args:
        name: of the dataset.
        nodes: on the ring.
        train: the first so many are training nodes.
        tests: the test nodes, in the order of the file.
        known: the first so many are in `allx`.
    """
    python2 = Python2Pickle()

    def features(chosen: NDArray[np.int64]) -> bytes:
        matrix = csr_matrix(np.stack([chosen + 1, chosen % 2], 1).astype(np.float32))
        return python2.file(python2.csr(matrix))

    def labels(chosen: NDArray[np.int64]) -> bytes:
        return python2.file(python2.array(np.eye(3, dtype=np.int32)[chosen % 3]))

    ring = {node: [(node + 1) % nodes, (node - 1) % nodes] for node in range(nodes)}
    first, last = np.arange(known), np.array(tests)
    parts = {
        "x": features(first[:train]),
        "y": labels(first[:train]),
        "allx": features(first),
        "ally": labels(first),
        "tx": features(last),
        "ty": labels(last),
        "graph": python2.file(python2.adjacency(ring)),
        "test.index": "\n".join(map(str, tests)).encode(),
    }
    return {f"ind.{name}.{part}": content for part, content in parts.items()}
