"""Archives in both layouts are read for their numbers, and refused with a reason otherwise."""

import io
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

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


def test_an_entry_that_is_stored_as_zero_is_no_edge():
    arrays = shchur(**{"adj_matrix.data": np.array([1.0, 0.0, 2.0, 1.0])})
    assert read_npz(archive(arrays), "some.npz").edge_index.tolist() == [[0, 1, 2], [1, 2, 2]]


def test_the_platonov_layout_gives_its_graph_and_all_its_splits():
    data = read_npz(archive(platonov()), "some.npz")
    assert data.edge_index.tolist() == [[0, 1], [1, 2]]
    assert data.x.tolist() == FEATURES.tolist()
    assert data.y.tolist() == [0, 1, 1]
    assert data.train_mask.tolist() == MASKS[:2].T.tolist()
    assert data.test_mask.tolist() == MASKS[[2, 0]].T.tolist()


def test_the_platonov_layout_may_have_no_splits():
    arrays = platonov(train_masks=None, val_masks=None, test_masks=None)
    assert "train_mask" not in read_npz(archive(arrays), "some.npz")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (shchur(labels=np.array([0.0, 1.0, 2.0])), "array labels of .* float64: .* integers"),
        (shchur(labels=np.array(["a", "b", "c"])), "array labels of .*integers"),
        (shchur(labels=np.eye(3, dtype=int)), r"array labels of shape \(3, 3\)"),
        (shchur(**{"attr_matrix.shape": None}), "no array attr_matrix.shape"),
        (shchur(**{"adj_matrix.indices": np.array([1, 0, 9, 2])}), r"adj_matrix\.\*: indices run"),
        (shchur(**{"adj_matrix.data": np.array([1, np.nan, 1, 1])}), "infinite or NaN"),
        (shchur(**sparse("adj_matrix.", ADJACENCY[:, :2])), "not square"),
        (platonov(edges=np.array([[0.0, 1.0]])), "array edges of .* float64"),
        (platonov(edges=np.array([[0, 1, 2]])), "edges of shape .* two columns"),
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


def test_an_archive_cut_short_anywhere_is_refused():
    whole = archive(shchur(), compressed=True).getvalue()
    for length in range(0, len(whole), 7):
        with pytest.raises(ValueError, match=r"some\.npz"):
            read_npz(io.BytesIO(whole[:length]), "some.npz")


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


def test_a_member_that_is_no_array_is_refused():
    stream = archive(shchur(labels=None))
    with zipfile.ZipFile(stream, "a") as members:
        members.writestr("labels", "0 1 2")
    stream.seek(0)
    with pytest.raises(ValueError, match=r"array labels of .* integers"):
        read_npz(stream, "some.npz")


def test_a_single_array_is_refused():
    stream = io.BytesIO()
    np.save(stream, np.zeros(3))
    stream.seek(0)
    with pytest.raises(ValueError, match="holds a single array"):
        read_npz(stream, "some.npz")


def test_an_array_of_objects_is_refused_and_nothing_in_it_runs(tmp_path):
    trace = tmp_path / "it-ran"
    labels = np.empty(3, dtype=object)
    labels[0] = Harmful(trace)
    raw = archive(shchur(labels=labels)).getvalue()
    with pytest.raises(ValueError, match="array labels that is damaged or not numbers"):
        read_npz(io.BytesIO(raw), "some.npz")
    assert not trace.exists()
    with np.load(io.BytesIO(raw), None, True) as arrays:
        arrays["labels"]
    assert trace.exists()


def test_a_pickle_in_place_of_an_archive_does_not_run(tmp_path):
    trace = tmp_path / "it-ran"
    raw = pickle.dumps(Harmful(trace))
    with pytest.raises(ValueError, match="is not an"):
        read_npz(io.BytesIO(raw), "some.npz")
    assert not trace.exists()
    pickle.loads(raw)
    assert trace.exists()
