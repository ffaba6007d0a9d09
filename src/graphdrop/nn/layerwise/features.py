"""`Rows`: node features read a range at a time, so that a memory map is never copied whole."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from graphdrop.nn.features import SPARSE_DENSITY, SparseFeatures

Transform = Callable[[Tensor], Tensor]
READ_BYTES = 1 << 26


class Rows:
    """The features of all nodes, preprocessed row by row.

    Args:
        x: ``[nodes, features]``, dense or sparse; a memory map too.
        dtype: the type of the model.
        transform: the model's preprocessing, of any rows; ``None`` for features as stored.
    """

    def __init__(
        self, x: Tensor | SparseFeatures, dtype: torch.dtype, transform: Transform | None = None
    ) -> None:
        if isinstance(x, Tensor) and x.layout is not torch.strided:
            x = transform(x) if transform is not None else x
            transform = None
            if x.layout is not torch.strided:  # as large as its nonzeros
                x = SparseFeatures.from_tensor(x)
        self.x, self.dtype, self.transform = x, dtype, transform

    def __len__(self) -> int:
        return self.x.shape[0]

    @property
    def width(self) -> int:
        """Number of features."""
        return self.x.shape[1]

    @property
    def stored(self) -> Tensor | None:
        """The features as they are stored, if the model reads these; otherwise None."""
        x = self.x
        plain = isinstance(x, Tensor) and self.transform is None and x.dtype == self.dtype
        return x if isinstance(x, Tensor) and plain and x.is_contiguous() else None

    def read(self, nodes: slice | Tensor) -> Tensor | SparseFeatures:
        """The features of some nodes, sparse if they are stored so."""
        if isinstance(self.x, Tensor):
            return self._read(self.x[nodes])
        if isinstance(nodes, slice):
            nodes = torch.arange(nodes.start, nodes.stop)
        return self.x.select(nodes)

    def of(self, nodes: Tensor) -> Tensor:
        """The features of some nodes, dense."""
        if isinstance(self.x, SparseFeatures):
            matrix = self.x.select(nodes).matrix
            dense = torch.zeros(len(nodes), self.width)
            dense[matrix.entry_row.long(), matrix.indices.long()] = matrix.value
            return dense.to(self.dtype)
        return self._read(self.x[nodes])

    @property
    def few_nonzeros(self) -> bool:
        """Whether a full-batch pass reads them as a sparse matrix."""
        if isinstance(self.x, SparseFeatures):
            return True
        step = max(1, READ_BYTES // (4 * self.width))
        counts = (
            int(torch.count_nonzero(self._read(self.x[first : first + step])))
            for first in range(0, len(self), step)
        )
        return sum(counts) <= SPARSE_DENSITY * len(self) * self.width

    def _read(self, x: Tensor) -> Tensor:
        x = x if x.dtype == self.dtype else x.to(self.dtype)
        return x if self.transform is None else self.transform(x)
