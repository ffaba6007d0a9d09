"""``LazyMatrix``: a matrix that is not stored as dense, for layers that take a tensor.

PyG's layers multiply their input by weights, with ``torch.nn.functional.linear``. Sparse features,
given to them in this form, are multiplied as a sparse matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only


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
        >>> from graphdrop.nn.features import SparseFeatures
        >>> x = LazyMatrix.of(SparseFeatures.from_tensor(torch.eye(3)))
        >>> nn.functional.linear(x, torch.tensor([[1.0, 2.0, 3.0]])).tolist()
        [[1.0], [2.0], [3.0]]
    """

    matrix: Multiplied

    @classmethod
    def of(cls, matrix: Multiplied) -> LazyMatrix:
        """A float32 tensor of the matrix's shape, which takes no memory."""
        lazy = torch.empty((), device=matrix.device).expand(matrix.shape).as_subclass(cls)
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
            return _linear(*args, **kwargs)
        if func in DESCRIBING:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        args, kwargs = tree_map_only(LazyMatrix, _dense, (args, kwargs))
        return func(*args, **kwargs)


def _linear(x: LazyMatrix, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product = x.matrix.matmul(weight.t().contiguous())
    return product if bias is None else product + bias


def _dense(x: LazyMatrix) -> Tensor:
    return x.matrix.to_dense()
