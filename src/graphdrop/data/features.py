"""Node features as a network takes them: as stored, or with rows that sum to 1."""

from __future__ import annotations

import torch
from torch import Tensor


def row_normalized(x: Tensor) -> Tensor:
    """Every row divided by its sum; a row whose sum is not above 0 stays as it is."""
    if x.layout is torch.strided:
        return x / _divisor(x.sum(1))[:, None]
    x = x.to_sparse_csr()
    length = x.crow_indices().diff()
    row = torch.arange(x.shape[0]).repeat_interleave(length)
    total = torch.zeros(x.shape[0], dtype=x.dtype).index_add_(0, row, x.values())
    values = x.values() / _divisor(total)[row]
    return torch.sparse_csr_tensor(
        x.crow_indices(), x.col_indices(), values, x.shape, check_invariants=True
    )


def _divisor(total: Tensor) -> Tensor:
    return torch.where(total > 0.0, total, 1.0)
