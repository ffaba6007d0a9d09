"""Sums without a mask on a GPU: cuSPARSE or hipSPARSE through ``torch.sparse``.

The matrix and its transpose stay on the device in CSR form; wrapping them as sparse tensors copies
nothing. It is the custom op ``graphdrop::sparse_sum``, because compilers trace no sparse tensors.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import torch
from torch import Tensor

from graphdrop.graph import CSR

_library: Any = torch.library.Library("graphdrop", "FRAGMENT")  # type: ignore[no-untyped-call]
_library.define("sparse_sum(Tensor x, Tensor[] rows, Tensor[] columns) -> Tensor")


def unmasked_sum(matrix: CSR, x: Tensor) -> Tensor:
    """``matrix @ x``, with a gradient for ``x``."""
    rows, columns = matrix.derived(("sparse sum", x.dtype), lambda: _parts(matrix, x.dtype))
    out: Tensor = torch.ops.graphdrop.sparse_sum(x, rows, columns)
    return out


def _parts(matrix: CSR, dtype: torch.dtype) -> tuple[list[Tensor], list[Tensor]]:
    rows = [matrix.indptr, matrix.indices, matrix.value.to(dtype)]
    return rows, [matrix.t_indptr, matrix.t_indices, matrix.t_value.to(dtype)]


def _multiply(x: Tensor, rows: list[Tensor], columns: list[Tensor]) -> Tensor:
    indptr, indices, value = rows
    shape = indptr.shape[0] - 1, columns[0].shape[0] - 1
    if not indices.shape[0] or not x.shape[1]:  # which cuSPARSE need not accept
        return x.new_zeros(shape[0], x.shape[1])
    _say_nothing_of_sparse_tensors()
    matrix = torch.sparse_csr_tensor(indptr, indices, value, shape, check_invariants=False)
    out: Tensor = torch.sparse.mm(matrix, x)
    return out


@cache
def _say_nothing_of_sparse_tensors() -> None:
    """Make the first one here, where torch's warning that they are new is not heard."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        torch.zeros(1, 1).to_sparse_csr()


class _SparseSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: list[Tensor], columns: list[Tensor]) -> Tensor:
        ctx.transposed = columns, rows
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.graphdrop.sparse_sum(x, rows, columns)  # type: ignore[no-any-return]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return torch.ops.graphdrop.sparse_sum(gradient, *ctx.transposed), None, None


def _differentiable(x: Tensor, rows: list[Tensor], columns: list[Tensor]) -> Tensor:
    if torch.is_grad_enabled() and x.requires_grad:
        return _SparseSum.apply(x, rows, columns)  # type: ignore[no-any-return, no-untyped-call]
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.graphdrop.sparse_sum(x, rows, columns)  # type: ignore[no-any-return]


def _fake(x: Tensor, rows: list[Tensor], _columns: list[Tensor]) -> Tensor:
    return x.new_empty(rows[0].shape[0] - 1, x.shape[1])


_library.impl("sparse_sum", _differentiable, "Autograd")
for _device in ("CUDA", "CPU"):
    _library.impl("sparse_sum", _multiply, _device)
torch.library.register_fake("graphdrop::sparse_sum", _fake, lib=_library)
