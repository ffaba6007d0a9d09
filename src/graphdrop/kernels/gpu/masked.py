"""Sums on a GPU with their gradients: masked ones in Triton, the others by torch's sparse product.

Several samples are summed in one launch. Triton is imported when the first masked sum is computed.
"""

# ruff: noqa: PLC0415 - Triton is imported at first use

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphdrop.graph import CSR, Graph
from graphdrop.graph.masks import Kind, Mask
from graphdrop.kernels.gpu.structure import direction_of
from graphdrop.kernels.passes import Form


def aggregate(graph: CSR, x: Tensor, mask: Mask) -> Tensor:
    """The masked neighbourhood sum, ``[num_dst, features]``, in the type of ``x``."""
    if mask.kind is Kind.NONE or not isinstance(graph, Graph):
        return unmasked_sum(graph, x)
    if mask.kind is Kind.MEAN and mask.keep_logit.dim() == 0 and mask.self_loops:
        return unmasked_sum(graph, x) * torch.sigmoid(mask.keep_logit.detach()).to(x)
    return aggregate_samples(graph, x.unsqueeze(1), [mask]).squeeze(1)


def aggregate_samples(graph: Graph, x: Tensor, masks: Sequence[Mask]) -> Tensor:
    """Masked sums of several samples in one launch, ``[num_dst, samples, features]``.

    Args:
        graph: the edges.
        x: ``[num_src, samples, features]``, or ``[num_src, 1, features]`` that samples share.
        masks: of one form, none without a mask: they differ in key, keep logit and table alone.
    """
    first = masks[0]
    if first.table is not None:
        rates = first.table.parameters
    else:
        rates = torch.stack([mask.keep_logit for mask in masks])
    if first.kind is not Kind.CONCRETE:
        # a hard mask has no derivative: estimators such as ARM bring their own
        rates = rates.detach()
    return _MaskedSum.apply(  # type: ignore[no-any-return, no-untyped-call]
        x, rates.to(x.device), graph, masks
    )


def together(masks: Sequence[Mask], features: int) -> bool:
    """Whether masks are of one form, so that one launch computes their sums."""
    forms = {
        (
            Form.of(mask, features),
            mask.temperature,
            mask.keep_logit.shape,
            None if mask.table is None else mask.table.multiplier.shape,
        )
        for mask in masks
    }
    return len(forms) == 1 and all(
        mask.kind is not Kind.NONE and not mask.before_normalization for mask in masks
    )


class _MaskedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rates: Tensor, graph: Graph, masks: Sequence[Mask]) -> Tensor:
        from graphdrop.kernels.gpu import launch

        # the input is read again only to differentiate the rates
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, rates)
        rule = launch.rule_of(masks, rates, x.shape[2])
        ctx.graph, ctx.rule, ctx.table, ctx.samples = graph, rule, masks[0].table, x.shape[1]
        return launch.sum_rows(direction_of(graph, transposed=False), x, rule)[0]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        from graphdrop.kernels.gpu import launch

        (x, rates), rule = ctx.saved_tensors, ctx.rule
        by_source = direction_of(ctx.graph, transposed=True)
        moved = None
        if x is None:
            passed, _ = launch.sum_rows(by_source, gradient, rule)
        elif ctx.table is None:
            passed, slopes = launch.sum_rows(by_source, gradient, rule, x)
            assert slopes is not None  # noqa: S101 - they were asked for
            moved = (slopes / rule.temperature).to(rates.dtype)
        else:
            tables = ctx.table.slopes.to(x.device, torch.float32)
            walks = [launch.sum_rows(by_source, gradient, rule, x, each) for each in tables]
            passed = walks[0][0]
            moved = torch.stack([slope.sum() for _, slope in walks if slope is not None])
            moved = moved.to(rates.dtype)
        if passed.shape[1] > ctx.samples:  # samples that share their input
            passed = passed.sum(1, keepdim=True)
        return passed if ctx.needs_input_grad[0] else None, moved, None, None


def unmasked_sum(matrix: CSR, x: Tensor) -> Tensor:
    """``matrix @ x`` by cuSPARSE or hipSPARSE, with a gradient for ``x``."""
    return _SparseSum.apply(x, matrix)  # type: ignore[no-any-return, no-untyped-call]


class _SparseSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: CSR) -> Tensor:
        ctx.matrix = matrix
        return _multiply(matrix, x, transposed=False)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _multiply(ctx.matrix, gradient, transposed=True), None


def _multiply(matrix: CSR, x: Tensor, *, transposed: bool) -> Tensor:
    rows, columns = matrix.num_rows, matrix.num_columns
    parts, shape = (matrix.indptr, matrix.indices, matrix.value), (rows, columns)
    if transposed:
        parts, shape = (matrix.t_indptr, matrix.t_indices, matrix.t_value), (columns, rows)
    if not matrix.num_entries or not x.shape[1]:  # which cuSPARSE need not accept
        return x.new_zeros(shape[0], x.shape[1])

    def make() -> Tensor:
        indptr, indices, value = parts
        with warnings.catch_warnings():  # torch calls its sparse tensors new
            warnings.simplefilter("ignore", UserWarning)
            return torch.sparse_csr_tensor(
                indptr, indices, value.to(x.dtype), shape, check_invariants=False
            )

    out: Tensor = torch.sparse.mm(matrix.derived(("sparse", x.dtype, transposed), make), x)
    return out
