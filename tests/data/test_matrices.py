"""Stored matrices are checked when read, and dense unless they are large."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from graphdrop.data import matrices
from graphdrop.data.matrices import checked_csr, feature_tensor

GOOD = {"values": [1.0, 2.0, 3.0], "indices": [0, 2, 1], "indptr": [0, 2, 3], "shape": (2, 3)}


def check(**changes: object) -> csr_matrix:
    parts = GOOD | changes
    arrays = (np.array(parts[part]) for part in ("values", "indices", "indptr"))
    return checked_csr(*arrays, parts["shape"], "some.npz")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": (2, 3, 4)}, "do not fit .*shape must"),
        ({"shape": (2, -3)}, "do not fit .*negative"),
        ({"shape": (4, 3)}, "do not fit .*pointer size 3 should be 5"),
        ({"shape": (2, 2)}, "do not fit .*indices must be < 2"),
        ({"indices": [0, -1, 1]}, "do not fit .*indices must be >= 0"),
        ({"indices": [0.0, 1.0, 2.0]}, "indices of a sparse matrix has .* float64"),
        ({"indptr": [0, 2, 4]}, r"indptr ends with \[4\]"),
        ({"indptr": [1, 2, 3]}, "do not fit .*start with 0"),
        ({"indptr": [0, 4, 3]}, "do not fit .*non-decreasing"),
        ({"indptr": [[0, 2, 3]]}, r"indptr of a sparse matrix has shape \(1, 3\)"),
        ({"values": [1.0, 2.0]}, "data has 2 entries, indices 3"),
        ({"values": ["a", "b", "c"]}, "data of a sparse matrix has .* numbers"),
    ],
)
def test_bad_parts_are_named(changes, message):
    with pytest.raises(ValueError, match=f"some.npz.*{message}"):
        check(**changes)


def test_features_up_to_the_limit_are_dense_and_beyond_it_sparse_and_the_same(monkeypatch):
    matrix = check()
    dense = feature_tensor(matrix)
    monkeypatch.setattr(matrices, "DENSE_LIMIT", 4 * 2 * 3)
    assert feature_tensor(matrix).layout == torch.strided
    monkeypatch.setattr(matrices, "DENSE_LIMIT", 4 * 2 * 3 - 1)
    sparse = feature_tensor(matrix)
    assert dense.layout == torch.strided
    assert sparse.layout == torch.sparse_csr
    assert dense.dtype == sparse.dtype == torch.float32
    assert torch.equal(sparse.to_dense(), dense)


def test_a_matrix_that_would_take_many_times_its_own_bytes_stays_sparse(monkeypatch):
    monkeypatch.setattr(matrices, "ALWAYS_DENSE", 100)
    stored = 3 * 4 + 3 * 4 + 3 * 4
    widest = stored * matrices.MOST_EXPANSION // 8
    assert feature_tensor(check(shape=(2, widest))).layout == torch.strided
    assert feature_tensor(check(shape=(2, widest + 1))).layout == torch.sparse_csr


def test_a_matrix_is_not_made_dense_beyond_the_memory_that_may_be_taken():
    assert feature_tensor(check(), most=24).layout == torch.strided
    assert feature_tensor(check(), most=23).layout == torch.sparse_csr
