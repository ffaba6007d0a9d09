"""Stored feature matrices: checked when they are read, dense unless they are large."""

import warnings
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch import Tensor

from graphdrop.io.memory import check_bytes, format_bytes

DENSE_LIMIT: Final = 2**30
"""Bytes up to which features are handed out dense, as every PyG model takes them: 1 GiB.

Beyond it those that are stored sparse stay a torch sparse CSR tensor.
"""
MOST_COLUMNS: Final = 2**31 - 1
"""Sparse features are numbered with 32 bits."""
ALWAYS_DENSE: Final = 2**28
MOST_EXPANSION: Final = 256
"""Above `ALWAYS_DENSE` bytes, how many times its stored bytes a sparse matrix may take dense.

The benchmarks take 20 to 60 times. A file of some kilobytes may declare any number of columns.
"""


def check_columns(columns: int, what: str, most: int) -> None:
    """Refuse a matrix of features so wide that no network on it fits in `most` bytes.

    A single hidden unit has a weight per feature, its gradient and Adam's two averages of that.
    """
    needed = 16 * columns
    check_bytes(f"{what} has {columns} columns: the weights of a single hidden unit", needed, most)
    if columns > MOST_COLUMNS:
        raise ValueError(
            f"{what} has {columns} columns: leave out those that are zero everywhere, so that no "
            f"more than {MOST_COLUMNS} are left (a single hidden unit takes {format_bytes(needed)})"
        )


def checked_csr(
    values: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    shape: Sequence[int],
    name: str,
) -> csr_matrix:
    """Put together the CSR matrix whose parts a file stores, or say what is wrong with them."""
    for part, array, kinds, takes in (
        ("data", values, "biuf", "numbers"),
        ("indices", indices, "iu", "integers"),
        ("indptr", indptr, "iu", "integers"),
    ):
        if array.ndim != 1 or array.dtype.kind not in kinds:
            raise ValueError(
                f"{name}: the {part} of a sparse matrix has shape {array.shape} and type "
                f"{array.dtype}, it takes a flat array of {takes}"
            )
    if not len(indptr) or not len(values) == len(indices) == indptr[-1]:
        raise ValueError(
            f"{name}: data has {len(values)} entries, indices {len(indices)} and indptr ends with "
            f"{indptr[-1:]}, the three must agree"
        )
    values, indices, indptr = (  # scipy takes no other byte order
        array.astype(array.dtype.newbyteorder("="), copy=False)
        for array in (values, indices, indptr)
    )
    try:
        matrix = csr_matrix((values, indices, indptr), shape=tuple(shape))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{name}: the parts of a sparse matrix do not fit ({error})") from error
    return matrix


def feature_tensor(matrix: csr_matrix | NDArray[Any], most: int | None = None) -> Tensor:
    """Turn a stored matrix `[n, f]` into float32 features.

    A sparse one becomes dense up to `DENSE_LIMIT` bytes, but not where that would take many times
    what it takes now, nor more than `most` bytes.
    """
    if isinstance(matrix, np.ndarray):
        return torch.from_numpy(np.require(matrix, np.float32, ["C", "W"]))
    matrix = matrix.astype(np.float32)
    matrix.sum_duplicates()
    rows, columns = matrix.shape
    stored = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
    largest = min(DENSE_LIMIT, max(ALWAYS_DENSE, MOST_EXPANSION * stored))
    if 4 * rows * columns <= (largest if most is None else min(largest, most)):
        return torch.from_numpy(matrix.toarray())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int64)),
            torch.from_numpy(matrix.indices.astype(np.int64)),
            torch.from_numpy(matrix.data),
            size=(rows, columns),
            check_invariants=True,
        )
