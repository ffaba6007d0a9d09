"""Sorting and searching of edges in CSR form, vectorized."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

CHUNKS = 64

Indices = NDArray[np.signedinteger[Any]]


def sorted_edges(
    source: Indices, destination: Indices, num_nodes: int
) -> tuple[Indices, Indices, Indices]:
    """CSR pointers, sources, and the former number of each edge, by (destination, source).

    Two counting sorts, by source and then by destination: linear time, and both stable.
    """
    one_each = np.arange(len(source) + 1, dtype=source.dtype)
    indptr, order, _ = by_column(one_each, source, num_nodes)
    indptr, indices, position = by_column(indptr, destination[order], num_nodes)
    return indptr, indices, order[position]


def by_column(indptr: Indices, indices: Indices, columns: int) -> tuple[Indices, Indices, Indices]:
    """Pointers, rows and entry numbers of a CSR matrix in column order: a stable counting sort."""
    entry = np.arange(len(indices), dtype=indices.dtype)
    matrix = csr_array((entry, indices, indptr), shape=(len(indptr) - 1, columns)).tocsc()
    pointers, rows, entry = (
        array.astype(indices.dtype, copy=False)  # scipy chooses its own integer type
        for array in (matrix.indptr, matrix.indices, matrix.data)
    )
    return pointers, rows, entry


def transpose(indptr: Tensor, indices: Tensor, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """`by_column` for tensors on any device."""
    arrays = by_column(indptr.cpu().numpy(), indices.cpu().numpy(), columns)
    pointers, rows, entry = (torch.from_numpy(array).to(indices) for array in arrays)
    return pointers, rows, entry


def rows_of(indptr: Tensor, entries: int | None = None) -> Tensor:
    """The row of each entry, `[E]`; a known number of entries avoids a device synchronization."""
    rows = torch.arange(len(indptr) - 1, dtype=indptr.dtype, device=indptr.device)
    return rows.repeat_interleave(indptr.diff(), output_size=entries)


def parallel_rank(indptr: Tensor, indices: Tensor) -> Tensor | None:
    """The rank of each edge among parallel edges, `[E]` int32; None if there are none."""
    repeated = torch.zeros(len(indices), dtype=torch.bool, device=indices.device)
    repeated[1:] = indices[1:] == indices[:-1]
    repeated[indptr[:-1][indptr.diff() > 0]] = False  # the first edge of a row repeats none
    if not bool(repeated.any()):
        return None
    number = torch.arange(len(indices), dtype=indices.dtype, device=indices.device)
    first = number.masked_fill(repeated, 0).cummax(0).values
    return (number - first).to(torch.int32)


def balanced_chunks(indptr: Tensor) -> Tensor:
    """Boundaries `[65]` int64 of 64 runs of rows with nearly equal counts of edges plus rows."""
    rows = len(indptr) - 1
    work = indptr.long() + torch.arange(rows + 1, device=indptr.device)
    share = torch.arange(CHUNKS + 1, device=indptr.device) * work[-1] // CHUNKS
    return torch.searchsorted(work, share)


def reverse_edges(
    destination: Tensor, source: Tensor, rank: Tensor | None, t_edge: Tensor
) -> Tensor:
    """The number of the edge with swapped ends and the same rank, or -1, `[E]`.

    Ends are node ids below 2^32. In CSR order the keys are sorted or nearly so, which makes the
    stable sort linear; in transposed order the swapped keys are, which keeps the search in cache.
    """
    high, low = (ids.cpu().numpy().astype(np.uint64) for ids in (destination, source))
    key, swapped = high << np.uint64(32) | low, low << np.uint64(32) | high
    del high, low
    query = t_edge.cpu().numpy()
    order = np.argsort(key, kind="stable")
    key, swapped = key[order], swapped[query]
    position = np.searchsorted(key, swapped)
    if rank is not None:  # parallel edges stand side by side, in the order of their ranks
        position += rank.cpu().numpy()[query]
    found = position < len(key)
    found[found] = key[position[found]] == swapped[found]
    reverse = np.full(len(key), -1)
    reverse[query[found]] = order[position[found]]
    return torch.from_numpy(reverse).to(t_edge)
