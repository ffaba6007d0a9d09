"""The self-check: before its first use on a device, a kernel must agree with plain torch.

Drivers, GPUs and versions of Triton differ, and these kernels were not run on all of them. So each
form of mask is tried once in every process, on a small graph, forward and backward. After an error
or a difference one warning says so, and plain torch computes the sums of that device.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from graphdrop.graph import CSR, Graph
from graphdrop.graph.masks import Kind, Mask, Sharing, Table, stream_key
from graphdrop.kernels import reference
from graphdrop.kernels.gpu import masked, structure
from graphdrop.kernels.passes import Form

TOLERANCE = 1e-3
"""Of a sum of positive terms, relative. A wrong draw of a row of few edges moves it by more."""
WIDEST = 144
"""Features of more tiles than these need no check of their own."""


class Variant(NamedTuple):
    """What decides which code a masked sum runs."""

    device: torch.device
    dtype: torch.dtype
    features: int
    form: Form
    logit_dtype: torch.dtype = torch.float32
    per_edge: bool = False
    table: tuple[int, ...] = ()
    """The shape of the table's slopes."""
    named_rows: bool = False
    named_columns: bool = False
    ranked: bool = False

    def __str__(self) -> str:
        return f"sums under {self.form.kind} masks, {self.features} features in {self.dtype}"


agreed: set[Variant] = set()
"""The variants that agree with plain torch in this process."""
refused: set[torch.device] = set()
"""The devices on which some variant does not."""


def is_right(graph: CSR, x: Tensor, mask: Mask) -> bool:
    """Whether masked sums of this variant agree with plain torch on the device of ``x``.

    The answer is found at the first call for a variant and then known. Tensors without values, and
    the recording of a CUDA graph, only read what is known.
    """
    # beyond, sizes that are multiples of 16 have code of their own, and others have not
    features = min(x.shape[-1], WIDEST + x.shape[-1] % 16)
    form = Form.of(mask, x.shape[-1])
    blocks = features if form.blocks == x.shape[-1] else min(form.blocks, features - 1)
    variant = Variant(x.device, x.dtype, features, form._replace(blocks=max(blocks, 0)))
    if mask.kind is not Kind.NONE and isinstance(graph, Graph):
        variant = variant._replace(
            logit_dtype=mask.keep_logit.dtype,
            per_edge=mask.keep_logit.dim() == 1,
            table=() if mask.table is None else tuple(mask.table.slopes.shape),
            named_rows=graph.dst_ids is not None,
            named_columns=graph.src_ids is not None,
            ranked=graph.rank is not None,
        )
    if variant in agreed:
        return True
    if variant.device in refused:
        return False
    if type(x) not in (Tensor, torch.nn.Parameter):
        return True
    if x.is_cuda and torch.cuda.is_current_stream_capturing():
        return True
    try:
        with torch.inference_mode(False), torch.enable_grad():
            difference = _find_difference(variant)
    except Exception as error:  # whatever a driver or a compiler may raise
        difference = f"{type(error).__name__}: {error}".splitlines()[0]
    if not difference:
        agreed.add(variant)
        return True
    refused.add(variant.device)
    warnings.warn(
        f"the GPU kernel fails its check on {variant.device} ({variant}): {difference}. Plain "
        "torch computes all masked sums on this device from now on: right, but slower",
        RuntimeWarning,
        stacklevel=2,
    )
    return False


def _small_graph(variant: Variant) -> Graph:
    """A graph with a hub of more edges than one program sums, in both directions, and a ring."""
    nodes = structure.SPAN + 8
    others = torch.arange(1, nodes)
    hub, ring = torch.zeros_like(others), torch.stack([others, others.roll(3)])
    edges = [torch.stack([others, hub]), torch.stack([hub, others]), ring]
    graph = Graph.from_edge_index(torch.cat([*edges, *[ring] * variant.ranked], 1))
    if variant.named_columns:
        graph = graph.rows(torch.arange(nodes - 2))
    elif variant.named_rows:
        graph = graph.window((0, nodes - 2))
    return graph.to(variant.device)


def _two_masks(variant: Variant, graph: Graph) -> list[Mask]:
    """Two masks of a variant, as two samples have them."""
    form = variant.form
    logit = torch.linspace(-2.0, 2.0, graph.num_edges).to(variant.device, variant.logit_dtype)
    table = None
    if variant.table:
        multiplier = torch.linspace(0.0, 1.0, variant.table[1], dtype=torch.float64)
        slopes = torch.stack([multiplier + i for i in range(variant.table[0])])
        parameters = torch.ones(variant.table[0], device=variant.device)
        table = Table(multiplier.to(variant.device), slopes.to(variant.device), parameters)
    return [
        Mask(
            form.kind,
            (logit if variant.per_edge else logit[len(logit) // 2 + i]).clone(),
            stream_key(1, sample=i),
            sharing=Sharing.SOURCE if form.by_source else Sharing.EDGE,
            blocks=max(form.blocks, 1),
            symmetric=form.symmetric,
            self_loops=form.self_loops,
            antithetic=form.antithetic,
            table=table,
        )
        for i in range(2)
    ]


def _find_difference(variant: Variant) -> str:
    """Compare the sums of two samples and their gradients; say what differs."""
    graph = _small_graph(variant)
    masks = _two_masks(variant, graph)
    size = max(graph.num_src, graph.num_dst) * 2 * variant.features
    # positive terms: no sum cancels, so that its error is relative to itself
    numbers = (0.5 + torch.arange(size).mul(7).remainder(13) / 13).to(variant.device, variant.dtype)
    x, gradient = (
        numbers[: rows * 2 * variant.features].view(rows, 2, variant.features)
        for rows in (graph.num_src, graph.num_dst)
    )
    transposed = graph.t_edge.shape[0] == graph.num_edges

    def run(exact: bool) -> list[Tensor]:
        given = x.double() if exact else x.clone()
        kind, table = masks[0].kind, masks[0].table
        rates = [mask.keep_logit for mask in masks]
        own = masks
        if table is not None:
            rates = [table.parameters.clone()]
            own = [replace(mask, table=replace(table, parameters=rates[0])) for mask in masks]
        wanted = [given, *(rates if kind is Kind.CONCRETE else [])] if transposed else []
        for tensor in wanted:
            tensor.requires_grad_()
        if exact:
            alone = [reference.aggregate(graph, given[:, i], own[i]) for i in range(2)]
            out = torch.stack(alone, 1)
        elif kind in (Kind.NONE, Kind.MEAN):
            out = torch.stack([masked.aggregate(graph, given[:, i], own[i]) for i in range(2)], 1)
        else:
            out = masked.aggregate_samples(graph, given, own)
        return [out, *torch.autograd.grad(out, wanted, gradient.to(out))] if wanted else [out]

    names = ("sum", "gradient of the features", *["gradient of the rates"] * 2)
    for name, sums, wanted_sums in zip(names, run(False), run(True), strict=False):
        got, exact = sums.detach().double(), wanted_sums.detach().double()
        most = TOLERANCE + torch.finfo(sums.dtype).eps
        error, allowed = (got - exact).abs(), most * exact.abs() + 1e-6
        if not bool((error <= allowed).all()):
            worst = float((error / allowed).nan_to_num(torch.inf).max())
            return f"the {name} is {worst:.3g} times as far from plain torch as it may be"
    return ""
