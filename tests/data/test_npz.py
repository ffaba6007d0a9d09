"""Archives in both layouts are read for their numbers, and refused with a reason otherwise."""

import io
import math
import os
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from graphdrop import load_dataset
from graphdrop.data.npz import read_npz

ADJACENCY = np.array([[0, 1, 0], [1, 0, 2], [0, 0, 1]], dtype=np.float32)
FEATURES = np.array([[0.5, 0], [0, 0], [1, 2]], dtype=np.float64)
MASKS = np.eye(3, dtype=bool)


def sparse(prefix: str, matrix: np.ndarray) -> dict[str, object]:
    parts = csr_matrix(matrix)
    arrays = {"data": parts.data, "indices": parts.indices, "indptr": parts.indptr}
    return {prefix + part: array for part, array in (arrays | {"shape": parts.shape}).items()}


def shchur(**changes: object) -> dict[str, object]:
    arrays = sparse("adj_matrix.", ADJACENCY) | sparse("attr_matrix.", FEATURES)
    return {**arrays, "labels": np.array([0, 1, -1]), **changes}


def platonov(**changes: object) -> dict[str, object]:
    arrays = {
        "node_features": FEATURES,
        "node_labels": np.array([0, 1, 1]),
        "edges": [[0, 1], [1, 2]],
    }
    masks = {"train_masks": MASKS[:2], "val_masks": MASKS[[1, 2]], "test_masks": MASKS[[2, 0]]}
    return {**arrays, **masks, **changes}


def archive(arrays: dict[str, object], compressed: bool = False) -> io.BytesIO:
    stream = io.BytesIO()
    kept = {key: array for key, array in arrays.items() if array is not None}
    (np.savez_compressed if compressed else np.savez)(stream, **kept)
    stream.seek(0)
    return stream


class Harmful:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    ("adjacency", "attributes"), [("adj_matrix.", "attr_matrix."), ("adj_", "attr_")]
)
def test_the_shchur_layout_gives_its_graph_in_both_spellings(adjacency, attributes, compressed):
    arrays = sparse(adjacency, ADJACENCY) | sparse(attributes, FEATURES)
    data = read_npz(archive(arrays | {"labels": [0, 1, -1]}, compressed), "some.npz")
    assert data.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 2]]
    assert data.x.tolist() == FEATURES.tolist()
    assert data.y.tolist() == [0, 1, -1]
    assert "train_mask" not in data


def test_attributes_may_be_one_dense_array():
    arrays = sparse("adj_matrix.", ADJACENCY) | {"attr_matrix": FEATURES, "labels": [0, 1, 0]}
    assert read_npz(archive(arrays), "some.npz").x.tolist() == FEATURES.tolist()


def test_the_platonov_layout_gives_its_graph_and_all_its_splits():
    data = read_npz(archive(platonov()), "some.npz")
    assert data.edge_index.tolist() == [[0, 1], [1, 2]]
    assert data.x.tolist() == FEATURES.tolist()
    assert data.y.tolist() == [0, 1, 1]
    assert data.train_mask.tolist() == MASKS[:2].T.tolist()
    assert data.test_mask.tolist() == MASKS[[2, 0]].T.tolist()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (shchur(labels=np.array([0.0, 1.0, 2.0])), "array labels of .* float64: .* integers"),
        (shchur(labels=np.array(["a", "b", "c"])), "array labels of .*integers"),
        (shchur(labels=np.eye(3, dtype=int)), r"array labels of shape \(3, 3\)"),
        (shchur(**{"attr_matrix.shape": None}), "no array attr_matrix.shape"),
        (
            shchur(**{"adj_matrix.indices": np.array([1, 0, 9, 2])}),
            r"adj_matrix\.\*: .*indices must be < 3",
        ),
        (shchur(**{"adj_matrix.data": np.array([1, np.nan, 1, 1])}), "infinite or NaN"),
        (shchur(**sparse("adj_matrix.", ADJACENCY[:, :2])), "not square"),
        (platonov(edges=np.array([[0.0, 1.0]])), "array edges of .* float64"),
        (platonov(edges=np.array([[0, 1, 2]])), r"edges of shape .* \(any, 2\)"),
        (platonov(train_masks=MASKS.astype(int)), "array train_masks of .* booleans"),
        (platonov(val_masks=None), "no array val_masks"),
        ({"weights": np.zeros(3)}, "has the arrays weights: it takes adj_matrix"),
        ({}, r"has the arrays \(none\)"),
    ],
)
def test_arrays_of_the_wrong_kind_are_named(arrays, message):
    with pytest.raises(ValueError, match=f"some.npz.*{message}"):
        read_npz(archive(arrays), "some.npz")


@pytest.mark.parametrize(
    "raw",
    [b"", b"no archive", b"PK\x03\x04 cut short", b"\x80\x02]q\x00."],
    ids=["empty", "text", "broken", "pickle"],
)
def test_a_file_that_is_no_archive_is_refused(raw):
    with pytest.raises(ValueError, match=r"some.npz is not an \.npz archive, or is cut short"):
        read_npz(io.BytesIO(raw), "some.npz")


def test_an_archive_with_a_damaged_byte_is_read_or_refused_with_a_reason():
    whole = archive(shchur(), compressed=True).getvalue()
    refused = 0
    for position in range(0, len(whole), 5):
        raw = bytearray(whole)
        raw[position] ^= 0xFF
        try:
            read_npz(io.BytesIO(bytes(raw)), "some.npz")
        except ValueError:
            refused += 1
    assert refused > 50


def test_an_array_of_objects_is_refused_and_nothing_in_it_runs(tmp_path):
    trace = tmp_path / "it-ran"
    labels = np.empty(3, dtype=object)
    labels[0] = Harmful(trace)
    raw = archive(shchur(labels=labels)).getvalue()
    with pytest.raises(ValueError, match=r"array labels of .* type object: it takes"):
        read_npz(io.BytesIO(raw), "some.npz")
    assert not trace.exists()
    with np.load(io.BytesIO(raw), None, True) as arrays:
        arrays["labels"]
    assert trace.exists()


def bomb(key: str, shape: tuple[int, ...], dtype: str = "<f8", size: int | None = None) -> bytes:
    """An archive whose array `key` is zeros of this shape, `size` bytes of them if not all."""
    header = io.BytesIO()
    declared = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, declared)
    left = math.prod(shape) * np.dtype(dtype).itemsize if size is None else size
    stream = archive(platonov(**{key: None}), compressed=True)
    with (
        zipfile.ZipFile(stream, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as members,
        members.open(f"{key}.npy", "w", force_zip64=True) as member,
    ):
        member.write(header.getvalue())
        while left:
            member.write(bytes(min(left, 2**22)))
            left -= min(left, 2**22)
    return stream.getvalue()


def peak_bytes(raw: bytes, **options: object) -> tuple[int, str]:
    """What reading an archive takes at most, and the error it ends in."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="some") as raised:
            read_npz(io.BytesIO(raw), "some.npz", **options)
        return tracemalloc.get_traced_memory()[1], str(raised.value)
    finally:
        tracemalloc.stop()


def test_an_array_beyond_the_limit_is_refused_before_it_is_unpacked():
    raw = bomb("node_features", (3, 2**22))
    assert len(raw) < 2**20
    taken, message = peak_bytes(raw, max_bytes=2**26)
    assert taken < 2**22
    assert "array node_features of shape (3, 4194304), would take 144.0 MiB of memory" in message
    assert "and 64.0 MiB may be taken" in message


@pytest.mark.parametrize(
    ("key", "shape", "dtype", "named"),
    [
        ("node_features", (2**20, 8), "|i1", "node_labels of shape (3,)"),
        ("node_labels", (2**22,), "<i8", "node_labels of shape (4194304,)"),
        ("train_masks", (2, 2**22), "|b1", "train_masks of shape (2, 4194304)"),
    ],
)
def test_arrays_that_do_not_agree_are_refused_before_they_are_unpacked(key, shape, dtype, named):
    taken, message = peak_bytes(bomb(key, shape, dtype))
    assert taken < 2**22
    assert f"array {named} " in message
    assert "to agree with the other arrays" in message


@pytest.mark.parametrize("part", ["data", "indices", "indptr", "shape"])
def test_parts_of_a_matrix_that_do_not_agree_are_named(part):
    long = np.zeros(100, dtype=np.int64)
    with pytest.raises(ValueError, match=rf"attr_matrix\.{part} of shape \(100,\) .* to agree"):
        read_npz(archive(shchur(**{f"attr_matrix.{part}": long})), "some.npz")


@pytest.mark.parametrize("columns", [2**31, 2**62])
def test_a_shape_that_the_bytes_of_the_file_do_not_fill_is_refused(columns):
    taken, message = peak_bytes(bomb("node_features", (90, columns), size=100))
    assert taken < 2**22
    assert f"its shape is (90, {columns}) and it has 100 bytes" in message


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compression_that_unpacks_without_bound_is_refused(method):
    stream = archive(platonov(node_labels=None))
    labels = io.BytesIO()
    np.save(labels, np.array([0, 1, 1]))
    with zipfile.ZipFile(stream, "a", method) as members:
        members.writestr("node_labels.npy", labels.getvalue())
    stream.seek(0)
    with pytest.raises(ValueError, match="compression is not one that numpy writes"):
        read_npz(stream, "some.npz")


def test_a_header_that_is_itself_a_bomb_is_refused():
    stream = archive(platonov(node_labels=None))
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_DEFLATED) as members:
        start = b"\x93NUMPY\x02\x00" + (2**26).to_bytes(4, "little")
        members.writestr("node_labels.npy", start + bytes(2**26))
    taken, message = peak_bytes(stream.getvalue())
    assert taken < 2**22
    assert "not that of an array of numbers" in message


def wide(columns: int) -> bytes:
    """A small archive of 90 nodes with one feature each, of so many."""
    parts = csr_matrix((np.ones(90), (np.arange(90), np.arange(90))), shape=(90, columns))
    arrays = {f"attr_matrix.{part}": getattr(parts, part) for part in ("data", "indices", "indptr")}
    arrays |= sparse("adj_matrix.", np.eye(90, k=1)) | {"attr_matrix.shape": np.array(parts.shape)}
    return archive(arrays | {"labels": np.arange(90) % 3}).getvalue()


@pytest.mark.parametrize(
    ("columns", "needed"), [(2**31, "32.0 GiB"), (2**40, "16.0 TiB"), (2**62, "64.0 EiB")]
)
def test_sparse_features_wider_than_any_network_are_refused_with_what_they_take(columns, needed):
    arrays = shchur(**{"attr_matrix.shape": np.array([3, columns])})
    for most in (2**33, 2**80):
        with pytest.raises(ValueError, match=rf"attr_matrix.*{columns} columns.*{needed}"):
            read_npz(archive(arrays), "some.npz", max_bytes=most)


@pytest.mark.parametrize("key", ["node_labels", "edges"])
def test_a_number_beyond_int64_is_refused(tmp_path, key):
    arrays = {"node_features": np.ones((4, 2)), "node_labels": np.arange(4) % 2}
    arrays["edges"] = np.array([[0, 1], [2, 3]])
    arrays[key] = arrays[key].astype(np.uint64)
    arrays[key].reshape(-1)[1] = 2**64 - 1  # -1 as int64: no label
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=rf"an array {key} with the number 18446744073709551615"):
        load_dataset(tmp_path / "a.npz", split="random-fractions")


def test_an_archive_that_unpacks_to_many_times_its_size_is_refused(tmp_path, run, monkeypatch):
    monkeypatch.setattr("graphdrop.io.memory.ALWAYS", 2**20)
    monkeypatch.delenv("GRAPHDROP_MAX_BYTES", raising=False)
    path, zeros = tmp_path / "a.npz", np.zeros((20_000, 100), np.float32)
    labels, edges = np.arange(20_000) % 2, np.array([[0, 1], [2, 3]])
    np.savez_compressed(path, node_features=zeros, node_labels=labels, edges=edges)
    words = ("data", "info", path, "--split", "random-fractions")
    code, _, said = run(*words)
    assert code == 2
    assert "a.npz, with its array node_features" in said
    assert "--max-bytes" in said
    assert run(*words, "--max-bytes", 2**28)[0] == 0
    assert run(*words)[0] == 2  # the limit was that of one command
    assert load_dataset(path, split="random-fractions", max_bytes=2**28).data.num_nodes == 20_000
