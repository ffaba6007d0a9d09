"""Planetoid's Python 2 pickles, read without calling anything that they name.

A pickle is a program: what it names is looked up and called. Here each of the six names that the
Planetoid files use stands for an inert record that only remembers what it was given; every other
name is refused. Neither numpy nor scipy is reached until the finished records are decoded, by code
of this file, into arrays whose sizes are bounded by the size of the file.
"""

import io
import math
import pickle
import pickletools
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from graphdrop.data.matrices import checked_csr


class _Record:
    """An inert record of the arguments and the state of a pickled object.

    With neither a `__dict__` nor a missing `__setstate__`, a pickle finds no attribute to set.
    """

    __slots__ = ("arguments", "items", "state")

    def __new__(cls, *arguments: object) -> "_Record":
        record = super().__new__(cls)
        record.arguments = arguments
        record.items = []
        record.state = None
        return record

    def __setstate__(self, state: object) -> None:
        self.state = state

    def __setitem__(self, key: object, value: object) -> None:
        self.items.append((key, value))

    arguments: tuple[Any, ...]
    items: list[tuple[Any, Any]]
    state: Any


class _Array(_Record):
    __slots__ = ()


class _Dtype(_Record):
    __slots__ = ()


class _Csr(_Record):
    __slots__ = ()


class _Lists(_Record):
    __slots__ = ()


_ALLOWED: Final[dict[tuple[str, str], object]] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("scipy.sparse.csr", "csr_matrix"): _Csr,
    ("collections", "defaultdict"): _Lists,
    # Only ever handed over as arguments; a string cannot be called.
    ("numpy", "ndarray"): "numpy.ndarray",
    ("__builtin__", "list"): "list",
}

_MEMO_WRITES: Final = frozenset({"BINPUT", "LONG_BINPUT"})
# fmt: off
_OPCODES: Final = _MEMO_WRITES | frozenset({
    "PROTO", "STOP", "MARK", "GLOBAL", "REDUCE", "BUILD", "NEWOBJ", "BINGET", "LONG_BINGET",
    "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "BINSTRING", "SHORT_BINSTRING",
    "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST", "APPEND", "APPENDS",
    "EMPTY_DICT", "SETITEM", "SETITEMS",
})
_DTYPES: Final = frozenset({b"i1", b"i2", b"i4", b"i8", b"u1", b"u2", b"u4", b"u8", b"f4", b"f8"})
# fmt: on


class _InertUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"it names {module}.{name}, which no Planetoid file needs"
            ) from None


def read_array(raw: bytes, name: str) -> NDArray[Any]:
    """Decode the pickle of one numeric numpy array; `name` is the file's name, for errors."""
    return _decode_array(_records(raw, name, _Array), name)


def read_csr(raw: bytes, name: str) -> csr_matrix:
    """Decode the pickle of one `scipy.sparse.csr_matrix`."""
    state = _records(raw, name, _Csr).state
    if not isinstance(state, dict) or not _is_shape(state.get(b"_shape")):
        raise _not_planetoid(name, "its matrix has no contents or no shape")
    parts = [_decode_array(state.get(part), name) for part in (b"data", b"indices", b"indptr")]
    return checked_csr(parts[0], parts[1], parts[2], state[b"_shape"], name)


def read_adjacency(raw: bytes, name: str) -> tuple[NDArray[np.int64], int]:
    """Decode the pickle of `{node: [neighbours]}` to edges `[2, E]` and the number of nodes.

    The keys must be 0..n-1. Entries come in the stored order, repeats included.
    """
    lists = _records(raw, name, _Lists).items
    nodes = [node for node, _ in lists]
    if not all(type(node) is int for node in nodes) or sorted(nodes) != list(range(len(nodes))):
        raise _not_planetoid(name, "its nodes are not numbered 0 to n-1")
    if not all(isinstance(neighbours, list) for _, neighbours in lists):
        raise _not_planetoid(name, "a node's neighbours are not a list")
    lengths = [len(neighbours) for _, neighbours in lists]
    if sum(lengths) > len(raw):
        # One short list, referred to from every node, would unfold without bound.
        raise _not_planetoid(name, "it unfolds to more edges than it has bytes")
    targets = [target for _, neighbours in lists for target in neighbours]
    if not all(type(target) is int for target in targets):
        raise _not_planetoid(name, "a neighbour is not an integer")
    sources = np.repeat(np.array(nodes, dtype=np.int64), lengths)
    return np.stack([sources, np.array(targets, dtype=np.int64)]), len(nodes)


def _records(raw: bytes, name: str, kind: type[_Record]) -> _Record:
    """Run the pickle; the result is a record of the given kind."""
    try:
        _check_opcodes(raw)
        # Strings stay bytes: they are the arrays' contents.
        loaded = _InertUnpickler(io.BytesIO(raw), encoding="bytes").load()
    except Exception as error:  # a broken pickle may raise nearly anything
        raise _not_planetoid(name, str(error) or type(error).__name__) from error
    if type(loaded) is not kind:
        raise _not_planetoid(name, f"it holds no {kind.__name__.strip('_').lower()}")
    return loaded


def _check_opcodes(raw: bytes) -> None:
    """Refuse instructions that the files do not need, before any of them runs."""
    if not raw:
        raise ValueError("it is empty")
    for opcode, argument, _ in pickletools.genops(raw):
        if opcode.name not in _OPCODES:
            raise ValueError(f"it has the pickle instruction {opcode.name}")
        # The memo is an array as long as its highest index: 5 bytes could ask for 32 GB.
        if opcode.name in _MEMO_WRITES and isinstance(argument, int) and argument > len(raw):
            raise ValueError(f"it asks for a memo of {argument} entries")


def _decode_array(record: object, name: str) -> NDArray[Any]:
    match record:
        case _Array(
            state=(int(), tuple() as shape, _Dtype() as kind, bool() as fortran, bytes() as raw)
        ):
            dtype = _decode_dtype(kind, name)
        case _:
            raise _not_planetoid(name, "an array has no contents")
    if not _is_shape(shape):
        raise _not_planetoid(name, "an array's shape is not one or two sizes")
    if math.prod(shape) * dtype.itemsize != len(raw):
        raise _not_planetoid(name, f"an array of shape {shape} has {len(raw)} bytes")
    return np.frombuffer(raw, dtype).reshape(shape, order="F" if fortran else "C")


def _is_shape(shape: object) -> bool:
    return (
        isinstance(shape, tuple)
        and len(shape) in (1, 2)
        and all(type(size) is int and size >= 0 for size in shape)
    )


def _decode_dtype(record: _Dtype, name: str) -> np.dtype[Any]:
    match record.arguments, record.state:
        case (bytes() as code, *_), (int(), (b"<" | b">" | b"|" | b"=") as order, *_) if (
            code in _DTYPES
        ):
            dtype: np.dtype[Any] = np.dtype((order + code).decode("ascii"))
            return dtype
        case _:
            raise _not_planetoid(name, "an array is not of integers or floating-point numbers")


def _not_planetoid(name: str, reason: str) -> ValueError:
    return ValueError(
        f"{name} is not a Planetoid file: {reason}; nothing in it was run. "
        "Fetch the file again from its source"
    )
