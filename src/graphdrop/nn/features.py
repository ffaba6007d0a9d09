"""Node features as a layer reads them, dense or sparse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphdrop.graph import CSR, Graph
from graphdrop.graph.csr import row_entries
from graphdrop.graph.masks import Mask, as_read, multipliers
from graphdrop.kernels import aggregate
from graphdrop.kernels.entries import entry_draws

SPARSE_DENSITY = 0.2
"""Dense input with a smaller fraction of nonzeros is multiplied as a sparse matrix."""
GATHERED_BYTES = 1 << 24
"""The largest number of bytes that the gradient of sparse values gathers at once."""


@dataclass(frozen=True, eq=False)
class SparseFeatures:
    """A sparse matrix of features."""

    matrix: CSR
    """Rows are nodes, columns are features."""
    value: Tensor | None = None
    """The values, if they require a gradient, as after DropOut with a learned rate."""

    @classmethod
    @torch.inference_mode(False)
    def from_tensor(cls, x: Tensor) -> SparseFeatures:
        """From a dense or sparse tensor ``[nodes, features]``; explicit zeros are dropped."""
        x = x.to_sparse(layout=torch.sparse_coo).coalesce()
        (row, column), value = x.indices(), x.values().to(torch.float32)
        row, column, value = (part[value != 0] for part in (row, column, value))
        indptr = torch.zeros(x.shape[0] + 1, dtype=torch.int32, device=x.device)
        torch.cumsum(torch.bincount(row, minlength=x.shape[0]), 0, out=indptr[1:])
        return cls(CSR.from_rows(indptr, column.to(torch.int32), value, x.shape[1]))

    @property
    def shape(self) -> tuple[int, int]:
        """Nodes and features."""
        return self.matrix.num_rows, self.matrix.num_columns

    @property
    def device(self) -> torch.device:
        """Where the values are."""
        return self.matrix.value.device

    @torch.inference_mode(False)
    def select(self, nodes: Tensor) -> SparseFeatures:
        """The rows of some nodes, all columns kept."""
        matrix = self.matrix
        entry, indptr = row_entries(matrix.indptr, nodes.to(matrix.indptr.device))
        return SparseFeatures(
            CSR.from_rows(indptr, matrix.indices[entry], matrix.value[entry], matrix.num_columns)
        )

    def columns(self, first: int, last: int) -> SparseFeatures:
        """A contiguous block of features."""
        matrix = self.matrix
        kept = (matrix.indices >= first) & (matrix.indices < last)
        row = matrix.entry_row[kept]
        indptr = torch.zeros_like(matrix.indptr)
        torch.cumsum(torch.bincount(row, minlength=matrix.num_rows), 0, out=indptr[1:])
        indices = matrix.indices[kept] - first
        return SparseFeatures(
            CSR.from_rows(indptr, indices, matrix.value[kept], last - first),
            None if self.value is None else self.value[kept],
        )

    def matmul(self, weight: Tensor) -> Tensor:
        """``X W`` with gradients for ``W`` and, if they require one, for the values."""
        product = aggregate(self.matrix, weight)
        if self.value is None:
            return product
        passed: Tensor = _ToValues.apply(  # type: ignore[no-untyped-call]
            product, self.value, weight.detach(), self.matrix
        )
        return passed

    def to_dense(self) -> Tensor:
        """``X``, with a gradient for the values if they require one."""
        matrix = self.matrix
        value = matrix.value if self.value is None else self.value
        zeros = value.new_zeros(self.shape)
        return zeros.index_put((matrix.entry_row.long(), matrix.indices.long()), value)

    def drop(self, mask: Mask, nodes: Tensor | None) -> SparseFeatures:
        """DropOut on sparse input: multiply every nonzero by the draw of its node and feature."""
        return self._times(_source_multipliers(mask, self.matrix, nodes))

    def dropout(self, rate: float) -> SparseFeatures:
        """DropOut by torch's generator, drawn for the nonzeros alone."""
        return self._times(_kept(self.matrix.value, rate)) if rate else self

    def scaled(self, factor: Tensor) -> SparseFeatures:
        """All values multiplied by a number."""
        return self._times(factor)

    def _times(self, factor: Tensor) -> SparseFeatures:
        value = (self.matrix.value if self.value is None else self.value) * factor
        scaled = self.matrix.with_values(value.detach())
        return SparseFeatures(scaled, value if value.requires_grad else None)


class _ToValues(torch.autograd.Function):
    """Passes a product ``X W`` on, and its gradient also to the nonzeros of ``X``."""

    @staticmethod
    def forward(ctx: Any, product: Tensor, _value: Tensor, weight: Tensor, matrix: CSR) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.matrix = matrix
        return product.view_as(product)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (weight,), matrix = ctx.saved_tensors, ctx.matrix
        run = max(1, GATHERED_BYTES // (8 * weight.shape[1]))
        ends = zip(matrix.entry_row.split(run), matrix.indices.split(run), strict=True)
        slopes = [(gradient[row] * weight[column]).sum(1) for row, column in ends]
        return gradient, torch.cat(slopes), None, None


def _source_multipliers(mask: Mask, matrix: CSR, nodes: Tensor | None) -> Tensor:
    """The DropOut multiplier of every nonzero, ``[nonzeros]``."""
    values = entry_draws(mask.key, nodes, matrix.indptr, matrix.indices)
    return multipliers(as_read(values, mask), mask, mask.keep_logit)


def dropout(x: Tensor | SparseFeatures, rate: float) -> Tensor | SparseFeatures:
    """DropOut by torch's generator; of sparse features nonzeros alone are drawn."""
    if isinstance(x, SparseFeatures):
        return x.dropout(rate)
    if x.device.type != "cpu":
        return torch.nn.functional.dropout(x, rate)
    return x * _kept(x, rate) if rate else x


def _kept(like: Tensor, rate: float) -> Tensor:
    """Multipliers by uniform numbers: a third of the time of torch's DropOut on a CPU."""
    return (torch.rand_like(like) >= rate) / (1.0 - rate)


def drop_dense(x: Tensor, mask: Mask, graph: Graph) -> Tensor:
    """DropOut on dense input: multiply every entry by the draw of its node and feature."""
    return aggregate(graph.source_loops, x, mask)
