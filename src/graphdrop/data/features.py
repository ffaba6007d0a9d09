"""Preprocessing of node features: as stored, row-normalized, or standardized."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor


def row_normalized(x: Tensor, order: Literal[1, 2] = 1) -> Tensor:
    """Every row divided by its sum (order 1), or by its Euclidean length (order 2).

    A row whose divisor is not above 0 stays as it is.
    """
    if x.layout is torch.strided:
        total = x.sum(1) if order == 1 else x.square().sum(1).sqrt()
        return x / _divisor(total)[:, None]
    x = x.to_sparse_csr()
    row = torch.arange(x.shape[0]).repeat_interleave(x.crow_indices().diff())
    summed = x.values() if order == 1 else x.values().square()
    total = torch.zeros(x.shape[0], dtype=x.dtype).index_add_(0, row, summed)
    values = x.values() / _divisor(total if order == 1 else total.sqrt())[row]
    return torch.sparse_csr_tensor(
        x.crow_indices(), x.col_indices(), values, x.shape, check_invariants=True
    )


def column_moments(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of every column over some rows, ``[features]`` each, in float64.

    A column that is constant there has a standard deviation of 1: it is centered and not scaled.
    """
    chosen = (x if x.layout is torch.strided else x.to_dense())[rows].double()
    mean, deviation = chosen.mean(0), chosen.std(0, correction=0)
    constant = deviation <= 1e-12 * mean.abs().clamp_min(1e-300)
    return mean, torch.where(constant | (deviation == 0.0), 1.0, deviation)


def standardized(x: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """Every column less its mean, divided by its standard deviation; the result is dense."""
    dense = x if x.layout is torch.strided else x.to_dense()
    mean, deviation = mean.to(dense.device), deviation.to(dense.device)
    return ((dense.double() - mean) / deviation).to(x.dtype)


def _divisor(total: Tensor) -> Tensor:
    return torch.where(total > 0.0, total, 1.0)
