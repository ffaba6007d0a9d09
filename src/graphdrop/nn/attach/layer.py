"""`MaskedLayer`: replaces methods of a PyG layer so that its messages are masked.

It replaces three methods. `forward` chooses the draw. `propagate` computes the masked sum with the
kernel if messages are weighted features that are summed or averaged. Otherwise the layer's own
`propagate` runs, and `message` multiplies its messages by the mask.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import conv
from torch_geometric.nn.conv import MessagePassing

from graphdrop.kernels import aggregate
from graphdrop.nn.attach.edges import EdgeCache, Edges, Ends, edge_numbers, split_edges
from graphdrop.nn.attach.masking import Masking, sums_features, weighted_features
from graphdrop.nn.attach.weights import given_edges, loop_weight_of, normalizes
from graphdrop.nn.sampled import NAME
from graphdrop.nn.sampled_layer import SampledLayer
from graphdrop.sampling.samplers import Draw, Sampler

METHODS = ("forward", "propagate", "message")
CALL_SHIFT = 32
"""Each `propagate` of a layer within one pass has its own random stream."""


@dataclass
class Call:
    """A call of a layer, while it runs."""

    draw: Draw | None
    apart: bool = False
    """Whether sources and destinations are different types of nodes."""
    weights: Callable[[Tensor], Tensor] | None = None
    """The linear map of a `GCNConv`, which follows the masked sum."""
    normalized: bool = False
    """Whether the weights of edges are given so that the layer does not normalize them."""
    masks_raw_weights: bool = False
    """Whether the masked sum normalizes what its mask leaves of these weights."""
    masked_weights: bool = False
    """Whether the weights have been masked, so that messages are not."""


class MaskedLayer(SampledLayer):
    """The sampler of one PyG layer, and the methods that apply it.

    Args:
        layer: a PyG layer; it is changed by `install` only.
        sampler: samples its connections.
        number: the number of the layer in the model, for its random stream.
        temperature: the temperature of masks in training; `None` for hard masks.
        seed: the seed of all draws.
        cache: shared by the layers of a model.
    """

    number: int

    def __init__(
        self,
        layer: MessagePassing,
        sampler: Sampler,
        *,
        number: int,
        temperature: float | None,
        seed: int,
        cache: EdgeCache,
    ) -> None:
        super().__init__()
        self._layer = (layer,)  # in a tuple, or it would be a child of its child
        self.sampler = sampler
        self.number = number
        self.temperature = temperature
        self.start_stream(seed)
        self._cache = cache
        self._before: dict[str, Any] = {}
        self._call: Call | None = None
        self.calls = 0
        """How often `propagate` has been called in the pass; each time has its own stream."""
        self._masked = 0  # how often a mask was applied, ever
        self._masking: Masking | None = None

    @property
    def layer(self) -> Any:
        """The PyG layer."""
        return self._layer[0]

    @property
    def masks_before(self) -> bool:
        """Whether masks act before the layer normalizes its edges."""
        return self.sampler is not None and self.sampler.before_normalization

    @property
    def owner(self) -> nn.Module:
        """The PyG layer, which has the weights."""
        owner: nn.Module = self.layer
        return owner

    # Put into a layer, and taken out again

    def install(self) -> None:
        """Replace the methods of the layer."""
        layer = self.layer
        if layer.explain:
            raise ValueError(
                f"{layer} is being explained: attach before, or set its explain to False"
            )
        own = {name: method for name, method in vars(layer).items() if name in METHODS}
        if own.get("propagate") in (_bound(layer, "_orig"), _bound(layer, "_jinja")):
            del own["propagate"]  # what decomposed_layers puts there, and puts there again
        self._before = {"fuse": layer.fuse, "decomposed": layer.decomposed_layers, **own}
        layer.decomposed_layers = 1
        layer.fuse = False
        layer.add_module(NAME, self)
        for name in METHODS:
            setattr(layer, name, getattr(self, name))

    def uninstall(self) -> None:
        """Restore the methods of the layer."""
        layer, before = self.layer, dict(self._before)
        for name in METHODS:
            vars(layer).pop(name, None)
        delattr(layer, NAME)
        layer.fuse = before.pop("fuse")
        layer.decomposed_layers = before.pop("decomposed")
        vars(layer).update(before)

    def _original(self, name: str) -> Callable[..., Any]:
        found: Callable[..., Any] = self._before.get(name) or getattr(
            type(self.layer), name
        ).__get__(self.layer)
        return found

    # Which random numbers

    def ask(self, draw: Draw | None, number: int) -> None:
        """Use this draw, or the expected mask for `None`, until `stop_asking`."""
        super().ask(draw, number)
        self.calls = 0

    def _next_draw(self) -> Draw | None:
        if not self._asked:
            self.calls = 0
        draw, _ = self.next_draw(training=self.layer.training)
        return draw

    # What the layer calls

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, *arguments: Any, **options: Any) -> Any:
        """Replaces `forward` of the layer; `torch.compile` skips it."""
        layer, before = self.layer, self._masked
        self._call = call = Call(self._next_draw(), _reads_two_kinds(arguments, options))
        try:
            with ExitStack() as stack:
                if type(layer).forward is conv.GCNConv.forward:  # masks on features come first
                    call.weights = layer.lin
                    vars(layer)["lin"] = _unchanged  # hides the child of this name
                    stack.callback(vars(layer).pop, "lin")
                arguments, options = self._give_weights(call, stack, arguments, options)
                out = self._original("forward")(*arguments, **options)
        finally:
            self._call = None
        if self._masked == before:
            raise RuntimeError(
                f"{layer} passed no messages that a mask could act on: attach cannot sample it; "
                "leave it out of the model, or attach to a part of the model without it"
            )
        return out

    def _give_weights(
        self, call: Call, stack: ExitStack, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, with weights that the layer does not normalize by itself.

        In a mini-batch these are normalized by the degrees of the whole graph. With masks before
        normalization they are masked, or the masked sum normalizes them.
        """
        layer, batch, before = self.layer, self.in_batch, self.masks_before
        normalizing = normalizes(layer)
        if not before and (batch is None or not normalizing):
            return arguments, options
        given = inspect.signature(type(layer).forward).bind(layer, *arguments, **options).arguments
        del given["self"]
        edge_index, weight = given["edge_index"], given.get("edge_weight")
        learned = weight is not None and weight.requires_grad
        if before and (learned or not (normalizing and sums_features(layer))):
            if batch is not None and normalizing:
                raise ValueError(
                    f"edge_weight requires a gradient, so that {layer} normalizes it, by the edges "
                    "of the mini-batch alone: use before_normalization=False, or the whole graph"
                )
            given["edge_index"], given["edge_weight"] = self._mask_weights(call, edge_index, weight)
            return (), given
        nodes = given["x"].size(layer.node_dim) if batch is None else batch.num_nodes
        edges = given_edges(layer, batch, nodes, edge_index, weight)
        call.normalized, call.masks_raw_weights = True, before
        given["edge_index"] = edges.edge_index
        given["edge_weight"] = edges.weight if before else edges.value
        layer.normalize = False
        stack.callback(setattr, layer, "normalize", True)
        return (), given

    def _mask_weights(
        self, call: Call, edge_index: Any, weight: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The weights times their masks; self-loops are kept."""
        if self.sampler is not None and self.sampler.blocks != 1:
            raise ValueError(
                f"edge_weight requires a gradient, so that {self.layer} normalizes it, with one "
                "weight per edge for all blocks: use blocks=1 and first_blocks=1, or DropEdge"
            )
        both = split_edges(edge_index, self.layer.flow)
        edges = self._cache.get(both, apart=call.apart, batch=self.in_batch)
        masking = self._mask(edges, call, self.number)
        weight = both.value if weight is None else weight
        kept = edges.graph.value.new_ones(len(both.source), 1)
        call.masked_weights = call.normalized = True
        if masking.mask is not None:
            mask = replace(masking.mask, self_loops=False, before_normalization=False)
            if call.draw is not None:
                call.draw.record(mask, masking.edges.counted, 1, self.number)
            kept = aggregate(masking.edges.messages, kept, mask)
        masked = kept.flatten() if weight is None else weight * kept.flatten().to(weight.dtype)
        if edges.importance is not None:
            masked = masked * edges.importance
        ends = both.source, both.destination
        flipped = self.layer.flow != "source_to_target"
        return torch.stack(ends[::-1] if flipped else ends), masked

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def propagate(self, edge_index: Any, *arguments: Any, **options: Any) -> Tensor:
        """Replaces `propagate` of the layer."""
        call = Call(self._next_draw()) if self._call is None else self._call
        number = self.number | self.calls << CALL_SHIFT
        self.calls += 1
        weights = call.weights
        if weights is not None and self.sampler is not None and self.sampler.blocks == 1:
            options["x"], weights = weights(options["x"]), None  # they touch no mask
        both = split_edges(edge_index, self.layer.flow)
        out = None if arguments else self._sum(both, call, number, options)
        if out is None:
            edges = self._cache.get(both, apart=call.apart, batch=self.in_batch)
            self._masking, before = self._mask(edges, call, number), self._masked
            self._check_values(both)
            try:
                out = self._original("propagate")(edge_index, *arguments, **options)
            finally:
                self._masking = None
            if self._masked == before:
                raise RuntimeError(
                    f"{self.layer} did not call message() in propagate(), so its mask would not "
                    "act: attach cannot sample it"
                )
        return out if weights is None else weights(out)

    def message(self, *arguments: Any, **options: Any) -> Tensor:
        """Replaces `message` of the layer: its messages times the mask."""
        sent: Tensor = self._original("message")(*arguments, **options)
        if self._masking is None:
            raise RuntimeError(
                f"propagate() of {self.layer} was replaced after attach, by setting explain or "
                "decomposed_layers: call handle.remove(), set it, and attach again"
            )
        self._masked += 1
        return self._masking.mask_messages(sent, self.layer)

    # Which mask, on which path

    def _mask(self, edges: Edges, call: Call, number: int) -> Masking:
        sampler, draw = self.sampler, call.draw
        assert sampler is not None  # noqa: S101 - what it was made with
        keeps_all = sampler.rescale if draw is None else draw.keeps_all
        if keeps_all or sampler.rate.keeps_all or call.masked_weights:
            return Masking(edges, None, None, draw, self.number)
        if 0 in sampler.rate.entries:
            raise ValueError(
                f"the rate of {self.layer} is computed from the edges of a graph, which are not "
                "set: call handle.observe(data) first"
            )
        if sampler.rate.entries:
            edges = edges.number_among(sampler.rate.entries.numel())
        mask = sampler.mask(edges.graph, draw, number)
        scale = sampler.row_factor(edges.graph, draw, number, mask)
        return Masking(edges, mask, scale, draw, self.number)

    def _sum(self, both: Ends, call: Call, number: int, options: dict[str, Any]) -> Tensor | None:
        """The masked sum or mean by the kernel; None if single messages are needed."""
        raw, terms = call.masks_raw_weights, None
        if not self._before.keys() & METHODS[1:]:
            terms = weighted_features(self.layer, both, options, any_type=raw)
        if terms is None:
            if raw:
                raise RuntimeError(
                    f"masks act before the normalization of {self.layer}, which takes features "
                    "[nodes, features] and no hooks on its messages: set before_normalization=False"
                )
            return None
        sizes = terms.rows, len(terms.x)
        edges = self._cache.get(both, sizes, apart=call.apart, batch=self.in_batch)
        if edges.importance is not None and not (terms.mean or call.normalized):
            weight = edges.importance
            terms = terms._replace(weight=weight if terms.weight is None else weight * terms.weight)
        self._masked += 1
        masking = self._mask(edges, call, number)
        if not raw:
            return masking.sum_terms(terms)
        # the sum is normalized by the degrees of what its mask leaves
        weight = edges.graph.value.new_ones(len(edges.order))
        weight = weight if terms.weight is None else terms.weight
        graph, mask = edges.before_normalization(weight, loop_weight_of(self.layer)), masking.mask
        if mask is not None and mask.keep_logit.dim():
            full = edges.whole_with(len(mask.keep_logit))
            if full is not edges.graph:
                mask = mask.of_edges(edge_numbers(full, graph.parent or graph))
        return masking._replace(mask=mask).sum_terms(terms, graph)

    def _check_values(self, both: Ends) -> None:
        """PyG's fused path multiplies by the values of a sparse matrix, which messages may not."""
        layer, value = self.layer, both.value
        if value is None or not self._before["fuse"] or "edge_weight" in layer._user_args:
            return
        if bool((value != 1).any()):
            raise ValueError(
                f"the sparse matrix has values other than 1, which {layer} reads on PyG's fused "
                "path only, and that passes no messages to mask: give edge_index and edge weights"
            )

    def extra_repr(self) -> str:
        """The number of the layer."""
        return f"number={self.number}"


def _bound(layer: MessagePassing, prefix: str) -> Any:
    method = getattr(type(layer), f"{prefix}_propagate", None)
    return None if method is None else method.__get__(layer)


def _unchanged(x: Tensor) -> Tensor:
    return x


def _reads_two_kinds(arguments: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether sources and destinations are different types of nodes.

    In a mini-batch the destinations are the first sources, in the same memory: one type.
    """
    x = options.get("x", arguments[0] if arguments else None)
    if not isinstance(x, tuple | list) or len(x) != 2:
        return False
    source, destination = x
    if not isinstance(source, Tensor) or not isinstance(destination, Tensor):
        return False
    return source.data_ptr() != destination.data_ptr()
