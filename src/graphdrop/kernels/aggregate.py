"""``aggregate``: the masked sum over neighbours, by the backend that fits its device and type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from functools import cache
from typing import Any, Never, TypeVar, cast

import torch
from torch import Tensor

from graphdrop.graph import CSR, Graph, Normalization
from graphdrop.graph.masks import Kind, Mask, block_of_feature
from graphdrop.kernels import cpu, gpu, reference

Function = TypeVar("Function", bound=Callable[..., Any])
HALF = (torch.bfloat16, torch.float16)


class Backend(StrEnum):
    """The backend that computes the sum; all draw the same masks."""

    AUTO = "auto"
    """The fused kernel for float32 on the CPU, Triton's on a GPU, the reference elsewhere."""
    FUSED = "fused"
    """One pass over the edges, on the CPU."""
    TRITON = "triton"
    """The same on a GPU, CUDA or ROCm."""
    REFERENCE = "reference"
    """Plain torch, on any device and in any float type."""

    @classmethod
    def _missing_(cls, value: object) -> Never:
        raise ValueError(f"backend is {value!r}: give one of {', '.join(cls)}")


def leave_uncompiled(function: Function) -> Function:
    """``torch.compiler.disable``, which keeps the types of the function."""
    return cast(Function, torch.compiler.disable(function))  # type: ignore[no-untyped-call]


@leave_uncompiled
def aggregate(
    graph: CSR, x: Tensor, mask: Mask | None = None, *, backend: Backend | str = Backend.AUTO
) -> Tensor:
    r"""Masked aggregation: the weighted sum over in-neighbours, the inner sum of eq. (6).

    .. math:: y_v = \sum_{u \to v} \hat A_{vu} \, z_{vu} \odot x_u

    Args:
        graph: the edges and their normalized weights, ``num_dst`` rows by ``num_src`` columns;
            without a mask any sparse matrix.
        x: features of the sources, ``[num_src, features]``.
        mask: which connections to keep; ``None`` keeps all.
        backend: ``auto``, ``fused``, ``triton`` or ``reference``.

    Returns:
        ``[num_dst, features]``, with gradients for ``x`` and, if the mask is concrete, for its
        keep logit.

    Example:
        >>> from graphdrop import Graph
        >>> graph = Graph.from_edge_index(torch.tensor([[0, 1], [1, 0]]), normalization="row")
        >>> aggregate(graph, torch.tensor([[1.0], [3.0]])).tolist()
        [[2.0], [2.0]]
    """
    if mask is None:
        mask = _keep_all(x.device)
    _check(graph, x, mask)
    if isinstance(graph, Graph) and mask.before_normalization and mask.kind is not Kind.NONE:
        return _masked_before(graph, x, mask, backend)
    return _sum(graph, x, mask, backend)


@cache
@torch.inference_mode(False)
def _keep_all(device: torch.device) -> Mask:
    key = torch.zeros(2, dtype=torch.int64)
    return Mask(Kind.NONE, torch.zeros((), device=device), key)


def _sum(graph: CSR, x: Tensor, mask: Mask, backend: Backend | str) -> Tensor:
    backend = backend if isinstance(backend, Backend) else Backend(backend)
    if isinstance(graph, Graph):
        mask = mask.of_edges(graph.parent_edge)
    return _sum_of_edges(graph, x, mask, backend)


def _sum_of_edges(graph: CSR, x: Tensor, mask: Mask, backend: Backend) -> Tensor:
    fits = is_fused(graph, x, mask)
    if backend is Backend.FUSED and not fits:
        raise ValueError(
            "backend='fused' takes float32 features and weights on the CPU and concrete masks at "
            f"a temperature of 0.14 or more; got x {x.dtype} on {x.device}, weights "
            f"{graph.value.dtype}, temperature {mask.temperature:g}: use backend='auto'"
        )
    out: Tensor
    if fits and backend in (Backend.AUTO, Backend.FUSED):
        out = cpu.aggregate(graph, x, mask)
    elif backend is Backend.TRITON or (backend is Backend.AUTO and is_on_gpu(graph, x, mask)):
        _check_triton(graph, x, mask)
        out = gpu.aggregate(graph, x, mask)
    elif backend is Backend.AUTO and x.dtype in HALF:  # summed in float32 everywhere
        out = _sum_of_edges(graph, x.float(), mask, backend).to(x.dtype)
    else:
        out = reference.aggregate(graph, x, mask)
    return out


def is_fused(graph: CSR, x: Tensor, mask: Mask) -> bool:
    """Whether the fused kernel supports these arguments."""
    return (
        x.dtype == torch.float32
        and graph.value.dtype == torch.float32
        and x.is_cpu
        and graph.value.is_cpu
        and mask.keep_logit.is_cpu
        and cpu.supports(mask)
    )


def is_on_gpu(graph: CSR, x: Tensor, mask: Mask) -> bool:
    """Whether the GPU's kernels are the ones to take: they run there and give right sums."""
    if not (gpu.is_gpu(x.device) and gpu.supports(graph, x, mask)):
        return False
    usable = mask.kind is Kind.NONE or gpu.is_usable(x.device)  # cuSPARSE takes no Triton
    return usable and gpu.is_right(graph, x, mask)


def _check_triton(graph: CSR, x: Tensor, mask: Mask) -> None:
    unmasked = mask.kind is Kind.NONE and gpu.is_gpu(x.device)
    if not (gpu.supports(graph, x, mask) and (unmasked or gpu.is_usable(x.device))):
        raise ValueError(
            "backend='triton' takes float32, bfloat16 or float16 features and float32 weights on a "
            f"GPU, and an installed triton; got x {x.dtype} on {x.device}, weights "
            f"{graph.value.dtype}: use backend='auto'"
        )


def _check(graph: CSR, x: Tensor, mask: Mask) -> None:
    if x.dim() != 2 or x.shape[0] != graph.num_columns:
        raise ValueError(
            f"x has shape {tuple(x.shape)}; it takes shape [{graph.num_columns}, features], a row "
            "for each source of the graph."
        )
    if x.requires_grad and graph.t_edge.shape[0] != graph.num_entries:
        raise ValueError(
            "x requires a gradient, and graph is a window without a transpose: use Graph.rows, or "
            "torch.no_grad()"
        )
    if not x.is_floating_point():
        raise TypeError(f"x has dtype {x.dtype}; it takes a floating-point tensor.")
    if x.device != graph.value.device:
        raise ValueError(
            f"x is on {x.device} and the graph on {graph.value.device}: move one with .to(...)"
        )
    if mask.kind is not Kind.NONE:
        if not isinstance(graph, Graph):
            raise TypeError(
                f"graph is {graph!r}; with a mask it takes a Graph, which has the node ids that "
                "draws depend on. Build it with Graph.from_scipy, or leave out the mask."
            )
        mask.draws_per_edge(x.shape[1])
    if mask.keep_logit.dim() == 1 and isinstance(graph, Graph):
        check_entries(graph, mask)


def check_entries(graph: Graph, mask: Mask) -> None:
    """Raise unless a mask with rates per edge has one for each edge of the whole graph."""
    whole = graph if graph.parent is None else graph.parent
    known = graph.parent is not None or graph.parent_edge is None
    if known and mask.keep_logit.shape[0] != whole.num_edges:
        raise ValueError(
            f"keep_logit has {mask.keep_logit.shape[0]} entries; it takes a scalar or one entry "
            f"for each of the {whole.num_edges} edges of the whole graph, self-loops included."
        )


def _masked_before(graph: Graph, x: Tensor, mask: Mask, backend: Backend | str) -> Tensor:
    """Masks before normalization: ``N(A * Z)`` instead of ``N(A) * Z``.

    The identity is added after masking, so self-loops are always kept. The degrees are the row
    sums of the masked matrix, one for every node and block, and carry their gradient.
    """
    mask = replace(mask, self_loops=False, before_normalization=False)
    kind = graph.normalization
    if kind is Normalization.NONE:
        return _sum(graph, x, mask, backend)
    blocks = mask.draws_per_edge(x.shape[1])

    def degree(part: Graph) -> Tensor:
        ones = x.new_ones(part.num_src, blocks)
        return _sum(part, ones, replace(mask, blocks=blocks), backend)

    if kind is Normalization.ROW:
        raw = _variant(graph, "all")
        total = degree(_variant(graph.complete_rows, "all"))
        return _times(_sum(raw, x, mask, backend), _power(total, -1.0))
    # the paper's identity stands outside the degrees, the symmetric one inside
    name = "between" if kind is Normalization.PAPER else "all"
    part, sources = _variant(graph, name), _source_rows(graph, name)
    if not graph.complete:  # of a batch, whose destinations are its first sources
        source_total = degree(sources)
        total = source_total[: graph.num_dst]
    elif graph.parent is not None and graph.src_ids is None:
        # a window: all windows of a graph read the degrees of all its nodes
        total = degree(part)
        source_total = graph.parent.derived(
            ("masked degrees", name, _form(mask, blocks)), lambda: degree(sources)
        )
    else:
        total = degree(part)
        source_total = total if part is sources else degree(sources)
    scaled = _times(x, _power(source_total, -0.5))
    out = _times(_sum(part, scaled, mask, backend), _power(total, -0.5))
    if kind is Normalization.PAPER:
        out = out + _sum(_variant(graph, "loops"), x, _keep_all(x.device), backend)
    return out


def _times(x: Tensor, factors: Tensor) -> Tensor:
    """``x`` times a factor per row and block of features."""
    (rows, features), blocks = x.shape, factors.shape[1]
    if (
        blocks and features % blocks == 0
    ):  # equal blocks are an axis: the gradient needs no scattering
        scaled = x.reshape(rows, blocks, features // blocks) * factors[:, :, None]
        return scaled.reshape(rows, features)
    return x * factors[:, block_of_feature(features, blocks, x.device)]


def _power(total: Tensor, exponent: float) -> Tensor:
    """``total ** exponent`` with ``0 ** negative = 0``, in the value and in the gradient.

    A sum below zero, which only weights below zero give, has an inverse but no root: 0 as well.
    """
    empty = total == 0.0 if exponent == -1.0 else total <= 0.0
    return torch.where(empty, 0.0, torch.where(empty, 1.0, total) ** exponent)


def _form(mask: Mask, blocks: int) -> tuple[object, ...]:
    """What the draws of a mask depend on."""
    key = tuple(mask.key.tolist())
    logit = id(mask.keep_logit) if mask.keep_logit.dim() else float(mask.keep_logit)
    options = mask.kind, mask.sharing, mask.symmetric, mask.antithetic, mask.temperature
    return (*options, logit, key, blocks, id(mask.table))


def _variant(graph: Graph, name: str) -> Graph:
    """The same edges with raw weights: all of them, those ``between`` nodes, or the ``loops``."""

    def make() -> Graph:
        value = graph.weight
        if name != "all":
            value = torch.where(graph.self_loop == (name == "loops"), value, 0.0)
        return graph.with_values(value)

    return graph.derived(("raw weights", name), make)


def _source_rows(graph: Graph, name: str) -> Graph:
    """The part whose rows are the columns of ``graph``, each with all of its edges."""
    parent, columns = graph.parent, graph.src_ids
    if parent is None:
        return _variant(graph, name)
    if columns is None:
        return _variant(parent.window((0, parent.num_dst)), name)
    return graph.derived(
        ("raw weights of sources", name), lambda: _variant(parent, name).rows(columns.long())
    )
