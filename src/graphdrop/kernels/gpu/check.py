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
from graphdrop.graph import masks as draws
from graphdrop.graph.masks import Kind, Mask, Sharing, Table, stream_key
from graphdrop.kernels import reference
from graphdrop.kernels.gpu import masked, segments
from graphdrop.kernels.passes import KINDS, options_of

TOLERANCE = 1e-3
"""Of a sum of positive terms, relative. A wrong draw of a row of few edges moves it by more."""
WIDEST = 144
"""Features of more tiles than these need no check of their own."""


class Form(NamedTuple):
    """What decides which code a masked sum runs."""

    device: torch.device
    dtype: torch.dtype
    features: int
    options: tuple[int, ...]
    logit_dtype: torch.dtype = torch.float32
    per_edge: bool = False
    temperature: float = draws.TEMPERATURE
    table: tuple[int, ...] = ()
    """The shape of the table's slopes."""
    named_rows: bool = False
    named_columns: bool = False
    ranked: bool = False

    def __str__(self) -> str:
        kind = KINDS[self.options[0]]
        return f"sums under {kind} masks, {self.features} features in {self.dtype}"


agreed: set[Form] = set()
"""The forms that agree with plain torch in this process."""
refused: set[torch.device] = set()
"""The devices on which some form does not."""


def is_right(graph: CSR, x: Tensor, mask: Mask) -> bool:
    """Whether the masked sums of this form agree with plain torch on the device of ``x``.

    The answer is found at the first call for a form and then known. Tensors without values, as in
    a trace, and the recording of a CUDA graph only read what is known.
    """
    if torch.compiler.is_compiling():
        return bool(_traced(x.device, x.dtype, mask.kind.value, mask.keep_logit.dim() == 1))
    features, options = x.shape[-1], options_of(mask, x.shape[-1])
    if features > WIDEST + 16:  # sizes that are multiples of 16 have code of their own
        kept = WIDEST + features % 16
        blocks = kept if options[2] == features else min(options[2], kept - 1)
        features, options = kept, (*options[:2], blocks, *options[3:])
    form = Form(x.device, x.dtype, features, options)
    if mask.kind is not Kind.NONE and isinstance(graph, Graph):
        form = form._replace(
            logit_dtype=mask.keep_logit.dtype,
            per_edge=mask.keep_logit.dim() == 1,
            temperature=mask.temperature,
            table=() if mask.table is None else tuple(mask.table.slopes.shape),
            named_rows=graph.dst_ids is not None,
            named_columns=graph.src_ids is not None,
            ranked=graph.rank is not None,
        )
    if form in agreed:
        return True
    if form.device in refused:
        return False
    if type(x) not in (Tensor, torch.nn.Parameter):
        return True
    if x.is_cuda and torch.cuda.is_current_stream_capturing():
        return True
    return _try(form)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _traced(device: torch.device, dtype: torch.dtype, kind: str, per_edge: bool) -> bool:
    """Whether masks of a kind are right, asked while a function is compiled.

    Widths may be symbols there, so one stands for all.
    """
    blocks = {Kind.NONE: 0, Kind.MEAN: 1}.get(Kind(kind), 40)
    options = KINDS.index(Kind(kind)), 0, blocks, 0, 1, 0
    form = Form(device, dtype, 40, options, per_edge=per_edge)
    return form in agreed or (device not in refused and _try(form))


def _try(form: Form) -> bool:
    """Check a form, and remember what was found."""
    try:
        with torch.inference_mode(False), torch.enable_grad():
            found = _differs(form)
    except Exception as error:  # whatever a driver or a compiler may raise
        found = f"{type(error).__name__}: {error}".splitlines()[0]
    if not found:
        agreed.add(form)
        return True
    refused.add(form.device)
    warnings.warn(
        f"the GPU kernel fails its check on {form.device} ({form}): {found}. Plain torch computes "
        "all masked sums on this device from now on: right, but slower",
        RuntimeWarning,
        stacklevel=2,
    )
    return False


def _small_graph(form: Form) -> Graph:
    """A graph with a hub of more edges than one program sums, in both directions, and a ring."""
    nodes = segments.SPAN + 8
    others = torch.arange(1, nodes)
    hub, ring = torch.zeros_like(others), torch.stack([others, others.roll(3)])
    edges = [torch.stack([others, hub]), torch.stack([hub, others]), ring]
    graph = Graph.from_edge_index(torch.cat([*edges, *[ring] * form.ranked], 1))
    if form.named_columns:
        graph = graph.rows(torch.arange(nodes - 2))
    elif form.named_rows:
        graph = graph.window((0, nodes - 2))
    return graph.to(form.device)


def _two_masks(form: Form, graph: Graph) -> list[Mask]:
    """Two masks of a form, as two samples have them."""
    number, source, blocks, symmetric, self_loops, antithetic = form.options
    logit = torch.linspace(-2.0, 2.0, graph.num_edges).to(form.device, form.logit_dtype)
    table = None
    if form.table:
        multiplier = torch.linspace(0.0, 1.0, form.table[1], dtype=torch.float64)
        slopes = torch.stack([multiplier + i for i in range(form.table[0])])
        parameters = torch.ones(form.table[0], device=form.device)
        table = Table(multiplier.to(form.device), slopes.to(form.device), parameters)
    return [
        Mask(
            KINDS[number],
            (logit if form.per_edge else logit[len(logit) // 2 + i]).clone(),
            stream_key(1, sample=i),
            sharing=Sharing.SOURCE if source else Sharing.EDGE,
            blocks=max(blocks, 1),
            symmetric=bool(symmetric),
            self_loops=bool(self_loops),
            temperature=form.temperature,
            antithetic=bool(antithetic),
            table=table,
        )
        for i in range(2)
    ]


def _differs(form: Form) -> str:
    """Compare the sums of two samples and their gradients; say what differs."""
    graph = _small_graph(form)
    masks = _two_masks(form, graph)
    size = max(graph.num_src, graph.num_dst) * 2 * form.features
    # positive terms: no sum cancels, so that its error is relative to itself
    numbers = (0.5 + torch.arange(size).mul(7).remainder(13) / 13).to(form.device, form.dtype)
    x, gradient = (
        numbers[: rows * 2 * form.features].view(rows, 2, form.features)
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
    for name, one, other in zip(names, run(False), run(True), strict=False):
        got, exact = one.detach().double(), other.detach().double()
        most = TOLERANCE + torch.finfo(one.dtype).eps
        error, allowed = (got - exact).abs(), most * exact.abs() + 1e-6
        if not bool((error <= allowed).all()):
            worst = float((error / allowed).nan_to_num(torch.inf).max())
            return f"the {name} is {worst:.3g} times as far from plain torch as it may be"
    return ""
