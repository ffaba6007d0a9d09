"""Node features as a layer reads them: dense, sparse, or a tensor that is not stored as dense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils._pytree import tree_map_only

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
        values = entry_draws(mask.key, nodes, self.matrix.indptr, self.matrix.indices)
        return self.scaled(multipliers(as_read(values, mask), mask, mask.keep_logit))

    def dropout(self, rate: float) -> SparseFeatures:
        """DropOut by torch's generator, drawn for the nonzeros alone."""
        return self.scaled(_draw_dropout(self.matrix.value, rate)) if rate else self

    def scaled(self, factor: Tensor) -> SparseFeatures:
        """The values multiplied by a number, or by a factor each."""
        value = (self.matrix.value if self.value is None else self.value) * factor
        scaled = self.matrix.with_values(value.detach())
        return SparseFeatures(scaled, value if value.requires_grad else None)


Features = Tensor | SparseFeatures


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


def dropout(x: Tensor | SparseFeatures, rate: float) -> Tensor | SparseFeatures:
    """DropOut by torch's generator; of sparse features nonzeros alone are drawn."""
    if isinstance(x, SparseFeatures):
        return x.dropout(rate)
    if x.device.type != "cpu":
        return torch.nn.functional.dropout(x, rate)
    return x * _draw_dropout(x, rate) if rate else x


def _draw_dropout(like: Tensor, rate: float) -> Tensor:
    """Multipliers by uniform numbers: a third of the time of torch's DropOut on a CPU."""
    return (torch.rand_like(like) >= rate) / (1.0 - rate)


def drop_dense(x: Tensor, mask: Mask, graph: Graph) -> Tensor:
    """DropOut on dense input: multiply every entry by the draw of its node and feature."""
    return aggregate(graph.source_loops, x, mask)


def linear(x: Features, layer: nn.Linear) -> Tensor:
    """A linear layer on dense or sparse features."""
    if isinstance(x, SparseFeatures):
        return x.matmul(layer.weight.t().contiguous()) + layer.bias
    out: Tensor = layer(x)
    return out


class Multiplied(Protocol):
    """What can be multiplied by weights without being dense, such as ``SparseFeatures``."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""

    @property
    def device(self) -> torch.device:
        """Where products are."""

    def matmul(self, weight: Tensor) -> Tensor:
        """``X W``, with its gradients."""

    def to_dense(self) -> Tensor:
        """``X``, with its gradients."""


DESCRIBING = frozenset(
    {
        Tensor.dim,
        Tensor.size,
        Tensor.__len__,
        Tensor.shape.__get__,  # type: ignore[attr-defined]
        Tensor.dtype.__get__,  # type: ignore[attr-defined]
        Tensor.device.__get__,
        Tensor.layout.__get__,  # type: ignore[attr-defined]
    }
)
"""Functions that read no entries."""


class LazyMatrix(Tensor):
    """A tensor without entries of its own: a linear layer reads the product with its weights.

    Every other function that needs the entries gets them as a dense tensor, so that any layer
    computes what it would from dense input.

    Example:
        >>> x = LazyMatrix.of(SparseFeatures.from_tensor(torch.eye(3)))
        >>> nn.functional.linear(x, torch.tensor([[1.0, 2.0, 3.0]])).tolist()
        [[1.0], [2.0], [3.0]]
    """

    matrix: Multiplied

    @classmethod
    def of(cls, matrix: Multiplied, dtype: torch.dtype = torch.float32) -> LazyMatrix:
        """A tensor of the matrix's shape, which takes no memory."""
        number = torch.empty((), dtype=dtype, device=matrix.device)
        lazy = number.expand(matrix.shape).as_subclass(cls)
        lazy.matrix = matrix
        return lazy

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Called by torch in place of any of its functions that was given such a tensor."""
        kwargs = kwargs or {}
        if func is nn.functional.linear and args and isinstance(args[0], LazyMatrix):
            return args[0]._multiply(*args[1:], **kwargs)
        if func in DESCRIBING:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        args, kwargs = tree_map_only(LazyMatrix, lambda x: x.matrix.to_dense(), (args, kwargs))
        return func(*args, **kwargs)

    def _multiply(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        product = self.matrix.matmul(weight.t().contiguous())
        return product if bias is None else product + bias
