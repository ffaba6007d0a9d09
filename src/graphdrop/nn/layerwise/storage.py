"""What a layer-wise pass reads and writes: features by rows, and the hidden states of all nodes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from graphdrop.graph.csr import row_entries
from graphdrop.kernels.buffers import empty
from graphdrop.nn.features import Features, SparseFeatures

MEMORY_BYTES, FOLDER_BYTES = 3 << 30, 8 << 30
"""Samples are computed side by side while their hidden states fit so many bytes."""
CHUNK_BYTES = 1 << 26
"""Rows are computed together while their outputs fit so many bytes."""
LEAST_ROWS = 256
MOST = 0.75
"""From this share of the nodes on, all are computed: in order, without a list of them."""


class Rows:
    """The features of all nodes, preprocessed row by row, so that a memory map is not copied.

    Args:
        x: ``[nodes, features]``, dense or sparse; a memory map too.
        dtype: the type of the model.
        transform: the model's preprocessing, of any rows; ``None`` for features as stored.
    """

    def __init__(
        self, x: Features, dtype: torch.dtype, transform: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        if isinstance(x, Tensor) and x.layout is not torch.strided:
            x = transform(x) if transform is not None else x
            transform = None
            if x.layout is not torch.strided:  # as large as its nonzeros
                x = SparseFeatures.from_tensor(x)
        self.x, self.dtype, self.transform = x, dtype, transform
        self.shape, self.device = (x.shape[0], x.shape[1]), x.device

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def stored(self) -> Tensor | None:
        """The features as they are stored, if the model reads these; otherwise None."""
        x = self.x
        if isinstance(x, SparseFeatures) or self.transform is not None or x.dtype != self.dtype:
            return None
        return x if x.is_contiguous() else None

    def read(self, nodes: slice | Tensor) -> Features:
        """The features of some nodes, sparse if they are stored so."""
        if isinstance(self.x, SparseFeatures):
            return self.x.select(torch.arange(len(self))[nodes])
        x = self.x[nodes].to(self.dtype)
        return x if self.transform is None else self.transform(x)

    def read_dense(self, nodes: slice | Tensor) -> Tensor:
        """The features of some nodes, dense."""
        x = self.read(nodes)
        return x.to_dense().to(self.dtype) if isinstance(x, SparseFeatures) else x

    def matmul(self, weight: Tensor) -> Tensor:
        """``X W``, a range of rows at a time."""
        step = max(LEAST_ROWS, CHUNK_BYTES // (4 * max(self.shape)))
        spans = (slice(first, first + step) for first in range(0, len(self), step))
        return torch.cat([self.read_dense(span) @ weight for span in spans])

    def to_dense(self) -> Tensor:
        """The features of all nodes."""
        return self.read_dense(slice(None))


class States:
    """Where hidden states are stored, and how many nodes and samples are computed at once.

    Args:
        nodes: number of nodes.
        batch_size: number of rows that are computed at once; chosen by default.
        folder: a folder for memory-mapped files, which have no name: they are gone with the
            process, even if it is killed. ``None`` is for memory.
        dtype: the type of the model.
    """

    def __init__(
        self,
        nodes: int,
        batch_size: int | None = None,
        folder: str | Path | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; it takes a number of at least 1.")
        if folder is not None and not Path(folder).is_dir():
            raise ValueError(
                f"folder is {str(folder)!r}, which is not a folder: make it, or leave it out to "
                "keep hidden states in memory"
            )
        self.nodes, self.batch_size, self.folder = nodes, batch_size, folder
        self.dtype = dtype

    def empty(self, samples: int, width: int) -> Tensor:
        """An uninitialized state ``[nodes, samples, width]``."""
        shape = self.nodes, samples, width
        if self.folder is None or not all(shape):
            if self.dtype == torch.float32:
                return empty(self.nodes, samples * width).view(shape)
            return torch.empty(shape, dtype=self.dtype)
        with tempfile.TemporaryFile(dir=self.folder) as file:
            # torch takes the map of a file as it takes any array, and keeps it alive
            kind = torch.empty(0, dtype=self.dtype).numpy().dtype
            return torch.from_numpy(np.memmap(file, kind, "w+", shape=shape))

    def count_samples(self, width: int, shared: int = 0) -> int:
        """How many samples fit side by side.

        Args:
            width: how many numbers a node has in a sample, in all states that live at once.
            shared: how many it has in states that samples share.
        """
        limit = MEMORY_BYTES if self.folder is None else FOLDER_BYTES
        each = self.dtype.itemsize * max(1, self.nodes)
        return max(1, (limit - each * shared) // (each * max(1, width)))

    def spans(self, width: int, rows: Tensor | None) -> Iterator[tuple[int, int]]:
        """The ranges of nodes, or of positions in ``rows``, of so many numbers, made at once."""
        count = self.nodes if rows is None else len(rows)
        step = self.batch_size or max(LEAST_ROWS, CHUNK_BYTES // max(1, 4 * width))
        return ((first, min(first + step, count)) for first in range(0, count, step))


def with_neighbors(indptr: Tensor, indices: Tensor, rows: Tensor | None) -> Tensor | None:
    """Some nodes and those that they read, in increasing order; None for all nodes.

    Args:
        indptr: ``[nodes + 1]``, the edges by destination.
        indices: ``[edges]``, their sources.
        rows: nodes in any order; None for all.

    Example:
        >>> indptr, indices = torch.tensor([0, 0, 1, 2, 3, 4]), torch.tensor([0, 1, 2, 3])
        >>> with_neighbors(indptr, indices, torch.tensor([2])).tolist()
        [1, 2]
    """
    nodes = len(indptr) - 1
    if rows is None or len(rows) >= MOST * nodes:
        return None
    reached = torch.zeros(nodes, dtype=torch.bool)
    reached[rows] = True
    reached[indices[row_entries(indptr, rows)[0]].long()] = True
    found = reached.nonzero().flatten()
    return found if len(found) < MOST * nodes else None
