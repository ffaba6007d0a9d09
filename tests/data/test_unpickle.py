"""Pickles are read for their arrays; nothing that they name is ever called."""

import contextlib
import os
import pickle
import pickletools
import struct
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.f2py.crackfortran as lookalike
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from graphdrop.data import sources
from graphdrop.data.unpickle import read_adjacency, read_array, read_csr

READERS = [read_array, read_csr, read_adjacency]


class Calls:
    """Pickles to a call of the function with the arguments."""

    def __init__(self, function: Callable[..., Any], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[object, ...]]:
        return self.call


def mkdir(python2: Any, path: str) -> bytes:
    return python2.name("posix", "mkdir") + python2.tuple(python2.string(path.encode())) + b"R"


def dumps(value: object) -> bytes:
    """Pickle with the instructions of the Planetoid files alone: strings as Python 2 wrote them."""
    raw = bytearray(pickle.dumps(value, 2))
    for opcode, _, position in pickletools.genops(bytes(raw)):
        if opcode.name == "BINUNICODE":
            raw[position] = ord("T")
    return bytes(raw)


# Each makes something at the path `p` when it is run.
HOSTILE: dict[str, Callable[[Any, str], bytes]] = {
    "os.system": lambda _, p: dumps(Calls(os.system, f"mkdir {p}")),
    "subprocess": lambda _, p: dumps(Calls(subprocess.check_call, ["mkdir", p])),
    "eval": lambda _, p: dumps(Calls(eval, f"__import__('os').mkdir({p!r})")),
    "two deep": lambda _, p: dumps(Calls(print, Calls(str, Calls(os.mkdir, p)))),
    "in a list": lambda _, p: dumps([1, [2, Calls(os.mkdir, p)]]),
    "protocol 5": lambda _, p: pickle.dumps(Calls(os.mkdir, p), 5),
    "numpy function that evaluates": lambda _, p: dumps(
        Calls(lookalike.myeval, f"__import__('os').mkdir({p!r})", {})
    ),
    "numpy class that writes files": lambda _, p: dumps(
        Calls(np.memmap, p, "uint8", "w+", 0, (1,))
    ),
    "numpy scalar of an object": lambda _, p: dumps(
        Calls(np.float64(0).__reduce__()[0], np.dtype("O"), Calls(os.mkdir, p))
    ),
    "instance instruction": lambda _, p: f"(S'{p}'\niposix\nmkdir\n.".encode(),
    "argument of an allowed name": lambda py2, p: py2.file(
        py2.name("numpy", "dtype") + py2.tuple(mkdir(py2, p)) + b"R"
    ),
    "content of an array": lambda py2, p: py2.file(
        py2.raw_array([1], py2.dtype(b"O8"), b"](" + mkdir(py2, p) + b"e")
    ),
    "state of a matrix": lambda py2, p: py2.file(
        py2.csr(csr_matrix((1, 1))).replace(b"(T\x06", b"(T\1\0\0\0a" + mkdir(py2, p) + b"T\x06", 1)
    ),
    "neighbour in a graph": lambda py2, p: py2.file(
        py2.adjacency({0: []}).replace(b"](", b"](" + mkdir(py2, p))
    ),
}


@pytest.fixture(params=HOSTILE, name="hostile")
def hostile_pickle(request: pytest.FixtureRequest, python2, tmp_path: Path) -> tuple[bytes, Path]:
    trace = tmp_path / "it-ran"
    return HOSTILE[request.param](python2, str(trace)), trace


def test_a_hostile_pickle_does_run_under_plain_pickle(hostile):
    raw, trace = hostile
    with warnings.catch_warnings(), contextlib.suppress(TypeError, ValueError):
        warnings.simplefilter("ignore")
        pickle.loads(raw, encoding="latin1")  # some fail once they have done their harm
    assert trace.exists()


def test_a_hostile_pickle_is_refused_and_nothing_runs(hostile):
    raw, trace = hostile
    for read in READERS:
        with pytest.raises(ValueError, match=r"ind.x is not a Planetoid.*nothing in it was run"):
            read(raw, "ind.x")
        assert not trace.exists()


def test_a_memo_that_would_fill_the_memory_is_refused_before_it_is_made(python2):
    raw = python2.file(python2.array(np.zeros(1)) + b"r" + struct.pack("<I", 2**31))
    with pytest.raises(ValueError, match="asks for a memo of 2147483648 entries"):
        read_array(raw, "ind.x")


def test_a_graph_that_unfolds_beyond_its_file_is_refused(python2):
    shared = python2.list(range(2000)) + b"q\0"
    lists = b"".join(python2.integer(node) + b"h\0" for node in range(1, 2000))
    raw = python2.adjacency({0: []}).replace(python2.list([]), shared + lists)
    with pytest.raises(ValueError, match="unfolds to more edges than it has bytes"):
        read_adjacency(python2.file(raw), "ind.graph")


@pytest.mark.parametrize("code", [b"O8", b"V8", b"S8", b"M8", b"c8", b"f1", b"i3"])
def test_arrays_of_anything_but_plain_numbers_are_refused(python2, code):
    raw = python2.raw_array([1], python2.dtype(code), python2.string(bytes(8)))
    with pytest.raises(ValueError, match="not of integers or floating-point numbers"):
        read_array(python2.file(raw), "ind.y")


@pytest.mark.parametrize("shape", [(3,), (2**31 - 1, 2**31 - 1), (-1, -2), (), (1, 1, 2)])
def test_an_array_whose_shape_is_not_that_of_its_bytes_is_refused(python2, shape):
    raw = python2.raw_array(shape, python2.dtype(b"f4"), python2.string(bytes(8)))
    with pytest.raises(ValueError, match="shape"):
        read_array(python2.file(raw), "ind.y")


@pytest.mark.parametrize("dtype", ["<i4", ">i8", "<f4", ">f8", "|u1"])
def test_an_array_is_read_as_it_was_written(python2, dtype):
    array = np.arange(12).reshape(3, 4).astype(dtype)
    read = read_array(python2.file(python2.array(array)), "ind.y")
    np.testing.assert_array_equal(read, array)
    assert read.dtype == array.dtype


def test_a_matrix_is_read_as_it_was_written(python2):
    matrix = csr_matrix(np.array([[0, 1.5, 0], [0, 0, 0], [2.5, 0, 3.5]]))
    read = read_csr(python2.file(python2.csr(matrix)), "ind.x")
    np.testing.assert_array_equal(read.toarray(), matrix.toarray())


def test_a_graph_is_read_entry_by_entry_in_order(python2):
    raw = python2.file(python2.adjacency({1: [0, 0, 1], 0: [1], 2: []}))
    edges, num_nodes = read_adjacency(raw, "ind.graph")
    assert edges.tolist() == [[1, 1, 1, 0], [0, 0, 1, 1]]
    assert num_nodes == 3


def test_a_file_cut_short_anywhere_is_refused(python2):
    whole = python2.file(python2.csr(csr_matrix(np.eye(3))))
    for length in range(len(whole)):
        with pytest.raises(ValueError, match=r"ind.x is not a Planetoid file"):
            read_csr(whole[:length], "ind.x")


@settings(max_examples=300, deadline=None)
@given(position=st.integers(0, 10**6), byte=st.integers(0, 255), which=st.integers(0, 2))
def test_a_damaged_byte_gives_an_array_or_a_clear_error(python2, position, byte, which):
    body = (
        python2.array(np.arange(4.0)),
        python2.csr(csr_matrix(np.eye(3))),
        python2.adjacency({0: [1], 1: [0, 1]}),
    )[which]
    raw = bytearray(python2.file(body))
    raw[position % len(raw)] = byte
    with contextlib.suppress(ValueError):
        READERS[which](bytes(raw), "ind.x")


@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed"])
def test_the_published_files_read_as_plain_pickle_reads_them(benchmark_root, name):
    contents = sources.read(sources.SOURCES[name], benchmark_root(name))

    def plain(part: str) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pickle.loads(contents[f"ind.{name}.{part}"], encoding="latin1")

    for part in ("x", "tx", "allx"):
        read = read_csr(contents[f"ind.{name}.{part}"], part)
        assert read.shape == plain(part).shape
        assert (read != plain(part)).nnz == 0
    for part in ("y", "ty", "ally"):
        np.testing.assert_array_equal(read_array(contents[f"ind.{name}.{part}"], part), plain(part))
    edges, num_nodes = read_adjacency(contents[f"ind.{name}.graph"], "graph")
    graph = plain("graph")
    assert edges.T.tolist() == [[node, other] for node in graph for other in graph[node]]
    assert num_nodes == len(graph)
