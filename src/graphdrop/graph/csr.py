"""`CSR`: a sparse matrix by rows and, through the same entries, by columns."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import InitVar, dataclass, field, replace
from typing import Self, TypeVar

import torch
from torch import Tensor

from graphdrop.graph import sorting
from graphdrop.graph.memo import Memo

T = TypeVar("T")


def row_entries(indptr: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The entries of some rows of a CSR matrix.

    Args:
        indptr: the offset of the first entry of each row, `[num_rows + 1]`.
        rows: row numbers, in any order.

    Returns:
        The number of each entry, row by row, and the offsets of these rows among them.

    Example:
        >>> entry, offsets = row_entries(torch.tensor([0, 2, 2, 5]), torch.tensor([2, 0]))
        >>> entry.tolist(), offsets.tolist()
        ([2, 3, 4, 0, 1], [0, 3, 5])
    """
    first, count = indptr[rows], indptr[rows + 1] - indptr[rows]
    offsets = indptr.new_zeros(len(rows) + 1)
    torch.cumsum(count, 0, out=offsets[1:])
    entry = (first - offsets[:-1]).repeat_interleave(count)
    entry += torch.arange(len(entry), dtype=entry.dtype, device=entry.device)
    return entry, offsets


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CSR:
    """A sparse matrix in CSR form together with its transpose, which gradients need.

    It is immutable, so that derived results are cached: those of the values for this matrix, those
    of the structure (positions of entries) for all matrices made by `with_values`.
    `dataclasses.replace` makes a matrix without a shared cache.
    """

    indptr: Tensor
    """The offset of the first entry of each row, `[num_rows + 1]`."""
    indices: Tensor
    """The column of each entry, `[E]`."""
    value: Tensor
    """The value of each entry, `[E]`."""
    t_indptr: Tensor
    """The offset of each column in transposed order, `[num_columns + 1]`."""
    t_indices: Tensor
    """The row of each entry in transposed order, `[E]`."""
    t_edge: Tensor
    """The number of each entry in transposed order, `[E]`."""
    structure_of: InitVar[CSR | None] = None
    """A matrix of the same structure, down to the last tensor."""

    _of_values: Memo = field(init=False, default_factory=Memo)
    _of_structure: Memo = field(init=False)

    def __post_init__(self, structure_of: CSR | None) -> None:
        shared = Memo() if structure_of is None else structure_of._of_structure
        object.__setattr__(self, "_of_structure", shared)

    @staticmethod
    @torch.inference_mode(False)
    def from_rows(indptr: Tensor, indices: Tensor, value: Tensor, num_columns: int) -> CSR:
        """A matrix from its compressed rows."""
        t_indptr, t_indices, t_edge = sorting.transpose(indptr, indices, num_columns)
        return CSR(
            indptr=indptr,
            indices=indices,
            value=value,
            t_indptr=t_indptr,
            t_indices=t_indices,
            t_edge=t_edge,
        )

    def with_values(self, value: Tensor) -> Self:
        """The same entries with other values; shares what is derived from the structure."""
        return replace(self, value=value, structure_of=self)

    def derived(self, key: Hashable, make: Callable[[], T]) -> T:
        """The cached result of `make()` under this key, for this matrix."""
        return self._of_values.get(key, make)

    def derived_from_structure(self, key: Hashable, make: Callable[[], T]) -> T:
        """The same for results that do not depend on values; `with_values` shares them."""
        return self._of_structure.get(key, make)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.indptr.shape[0] - 1

    @property
    def num_columns(self) -> int:
        """Number of columns."""
        return self.t_indptr.shape[0] - 1

    @property
    def num_entries(self) -> int:
        """Number of stored entries."""
        return self.indices.shape[0]

    @property
    def entry_row(self) -> Tensor:
        """The row of each entry, `[E]`."""
        return self.derived_from_structure(
            "entry_row", lambda: sorting.rows_of(self.indptr, len(self.indices))
        )

    @property
    def row_length(self) -> Tensor:
        """Number of entries of each row, `[num_rows]`."""
        return self.derived_from_structure("row_length", self.indptr.diff)

    @property
    def column_length(self) -> Tensor:
        """Number of entries of each column, `[num_columns]`."""
        return self.derived_from_structure("column_length", self.t_indptr.diff)

    @property
    def t_value(self) -> Tensor:
        """`value` in transposed order, so that a backward pass reads it in sequence, `[E]`."""
        return self.derived("t_value", lambda: self.value.index_select(0, self.t_edge))

    @property
    def chunks(self) -> Tensor:
        """Boundaries of 64 runs of rows of nearly equal work (entries and rows), `[65]` int64."""
        return self.derived_from_structure("chunks", lambda: sorting.balanced_chunks(self.indptr))

    @property
    def t_chunks(self) -> Tensor:
        """`chunks` of the transpose: runs of columns."""
        return self.derived_from_structure(
            "t_chunks", lambda: sorting.balanced_chunks(self.t_indptr)
        )

    def __repr__(self) -> str:
        return f"CSR({self.num_rows} x {self.num_columns}, {self.num_entries} entries)"
