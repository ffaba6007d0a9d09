"""`MaskedLayer`: replaces methods of a PyG layer so that its messages are masked.

It replaces three methods. `forward` chooses the draw. `propagate` computes the masked sum with the
kernel if messages are weighted features that are summed or averaged. Otherwise the layer's own
`propagate` runs, and `message` multiplies its messages by the mask.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import conv
from torch_geometric.nn.conv import MessagePassing

from graphdrop.kernels import aggregate
from graphdrop.loading.whole import WholeGraph
from graphdrop.nn.attach.batches import edge_numbers, given_edges, loop_weight_of, normalizes
from graphdrop.nn.attach.edges import EdgeCache, Edges
from graphdrop.nn.attach.ends import Ends, ends
from graphdrop.nn.attach.masking import Masking, Terms, sums_features, weighted_features
from graphdrop.nn.sampled import NAME
from graphdrop.nn.sampled_layer import SampledLayer
from graphdrop.sampling.samplers import Draw, Sampler

METHODS = ("forward", "propagate", "message")
CALL_SHIFT = 32
"""Each `propagate` of a layer within one pass has its own random stream."""


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
        self._draw: Draw | None = None
        self._inside = self._apart = self._normalized = self._masked_weights = False
        self._unnormalized = False  # whether the call is given weights to mask and normalize
        self.calls = self._masked = 0
        self._masking: Masking | None = None
        self._walked: WholeGraph | None = None  # the graph that a layer-wise pass walks through
        self._weights: tuple[Any, ...] = ()  # of a GCNConv, while it passes messages

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

    @contextmanager
    def asked(
        self, draw: Draw | None, number: int, part: EdgeCache, call: int = 0
    ) -> Iterator[None]:
        """Context of a call on a part of a graph, whose cache has the ids of its nodes.

        The mask is that of the whole graph in its pass, in the given call of `propagate`.
        """
        whole, self._cache = self._cache, part
        self._walked = part.whole
        self.ask(draw, number)
        self.calls = call
        try:
            yield
        finally:
            self._cache, self._walked = whole, None
            self.stop_asking()

    def _next_draw(self) -> Draw | None:
        if not self._asked:
            self.calls = 0
        draw, _ = self.next_draw(training=self.layer.training)
        return draw

    # What the layer calls

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, *arguments: Any, **options: Any) -> Any:
        """Replaces `forward` of the layer; `torch.compile` skips it."""
        self._draw, self._inside = self._next_draw(), True
        self._apart = _reads_two_kinds(arguments, options)
        before = self._masked
        try:
            with self._weights_last(), ExitStack() as stack:
                arguments, options = self._with_weights(stack, arguments, options)
                out = self._original("forward")(*arguments, **options)
        finally:
            self._draw, self._inside, self._apart, self._normalized = None, False, False, False
            self._unnormalized = self._masked_weights = False
        if self._masked == before:
            raise RuntimeError(
                f"{self.layer} passed no messages that a mask could act on: attach cannot sample "
                "it; leave it out of the model, or attach to a part of the model without it"
            )
        return out

    def _with_weights(
        self, stack: ExitStack, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, with weights that the layer does not normalize by itself.

        In a mini-batch these are normalized by the degrees of the whole graph. With masks before
        normalization they are masked, or the masked sum normalizes them.
        """
        layer, batch, before = self.layer, self.in_batch, self.masks_before
        if self._walked is not None and before:
            self._unnormalized = True
            return arguments, options
        by_us = normalizes(layer)
        if not before and (batch is None or not by_us):
            return arguments, options
        given = inspect.signature(type(layer).forward).bind(layer, *arguments, **options).arguments
        del given["self"]
        edge_index, weight = given["edge_index"], given.get("edge_weight")
        learned = weight is not None and weight.requires_grad
        if before and (learned or not (by_us and sums_features(layer))):
            if batch is not None and by_us:
                raise ValueError(
                    f"edge_weight requires a gradient, so that {layer} normalizes it, by the edges "
                    "of the mini-batch alone: use before_normalization=False, or the whole graph"
                )
            given["edge_index"], given["edge_weight"] = self._mask_weights(edge_index, weight)
            return (), given
        nodes = given["x"].size(layer.node_dim) if batch is None else batch.num_nodes
        edges = given_edges(layer, batch, nodes, edge_index, weight)
        self._normalized, self._unnormalized = True, before
        given["edge_index"] = edges.edge_index
        given["edge_weight"] = edges.weight if before else edges.value
        layer.normalize = False
        stack.callback(setattr, layer, "normalize", True)
        return (), given

    def _mask_weights(self, edge_index: Any, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        """The weights times their masks; self-loops are kept."""
        if self.sampler is not None and self.sampler.blocks != 1:
            raise ValueError(
                f"edge_weight requires a gradient, so that {self.layer} normalizes it, with one "
                "weight per edge for all blocks: use blocks=1 and first_blocks=1, or DropEdge"
            )
        both = ends(edge_index, self.layer.flow)
        edges = self._cache.get(both, apart=self._apart, batch=self.in_batch)
        masking = self._mask(edges, self._draw, self.number)
        weight = both.value if weight is None else weight
        one = edges.graph.value.new_ones(len(both.source), 1)
        self._masked_weights = self._normalized = True
        if masking.mask is not None:
            mask = replace(masking.mask, self_loops=False, before_normalization=False)
            if self._draw is not None:
                self._draw.record(mask, masking.edges.counted, 1, self.number)
            one = aggregate(masking.edges.messages, one, mask)
        masked = one.flatten() if weight is None else weight * one.flatten().to(weight.dtype)
        if edges.importance is not None:
            masked = masked * edges.importance
        pair = (both.source, both.destination)
        flipped = self.layer.flow != "source_to_target"
        return torch.stack(pair[::-1] if flipped else pair), masked

    @contextmanager
    def _weights_last(self) -> Iterator[None]:
        """Move the weights of a `GCNConv` behind the sum, since masks on features come first."""
        layer = self.layer
        if type(layer).forward is not conv.GCNConv.forward:
            yield
            return
        self._weights = (layer.lin,)
        vars(layer)["lin"] = _unchanged  # hides the child of this name
        try:
            yield
        finally:
            del vars(layer)["lin"]
            self._weights = ()

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def propagate(self, edge_index: Any, *arguments: Any, **options: Any) -> Tensor:
        """Replaces `propagate` of the layer."""
        draw = self._draw if self._inside else self._next_draw()
        number = self.number | self.calls << CALL_SHIFT
        self.calls += 1
        weights = self._weights[0] if self._weights else None
        if weights is not None and self.sampler is not None and self.sampler.blocks == 1:
            options["x"], weights = weights(options["x"]), None  # they touch no mask
        both = ends(edge_index, self.layer.flow)
        out = self._summed(both, draw, number, options) if not arguments else None
        if out is None:
            edges = self._cache.get(both, apart=self._apart, batch=self.in_batch)
            self._masking = self._mask(edges, draw, number)
            self._check_values(both)
            before = self._masked
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
        return self._masking.messages(sent, self.layer)

    # Which mask, on which path

    def _mask(self, edges: Edges, draw: Draw | None, number: int) -> Masking:
        sampler = self.sampler
        assert sampler is not None  # noqa: S101 - what it was made with
        keeps_all = sampler.rescale if draw is None else draw.keeps_all
        if keeps_all or sampler.rate.keeps_all or self._masked_weights:
            return Masking(edges, None, None, draw, self.number)
        if 0 in sampler.rate.entries:
            raise ValueError(
                f"the rate of {self.layer} is computed from the edges of a graph, which are not "
                "set: call handle.observe(data) first"
            )
        if sampler.rate.entries:
            edges = edges.numbered(sampler.rate.entries.numel())
        mask = sampler.mask(edges.graph, draw, number)
        scale = sampler.row_factor(edges.graph, draw, number, mask)
        return Masking(edges, mask, scale, draw, self.number)

    def _summed(
        self, both: Ends, draw: Draw | None, number: int, options: dict[str, Any]
    ) -> Tensor | None:
        """The masked sum or mean by the kernel; None if single messages are needed."""
        if not self._before.keys() & METHODS[1:]:
            terms = weighted_features(self.layer, both, options, any_type=self._unnormalized)
            if terms is not None:
                edges = self._cache.get(
                    both, (terms.rows, len(terms.x)), apart=self._apart, batch=self.in_batch
                )
                if edges.importance is not None and not (terms.mean or self._normalized):
                    weight = edges.importance
                    weight = weight if terms.weight is None else weight * terms.weight
                    terms = terms._replace(weight=weight)
                self._masked += 1
                if self._unnormalized:
                    return self._sum_before(edges, draw, number, terms)
                return self._mask(edges, draw, number).summed(terms)
        if self._unnormalized:
            raise RuntimeError(
                f"masks act before the normalization of {self.layer}, which takes features "
                "[nodes, features] and no hooks on its messages: set before_normalization=False"
            )
        return None

    def _sum_before(self, edges: Edges, draw: Draw | None, number: int, terms: Terms) -> Tensor:
        """The masked sum that is normalized by the degrees of what its mask leaves."""
        weight = edges.graph.value.new_ones(len(edges.order))
        weight = weight if terms.weight is None else terms.weight
        graph = edges.before_normalization(weight, loop_weight_of(self.layer))
        masking = self._mask(edges, draw, number)
        mask = masking.mask
        if mask is not None and mask.keep_logit.dim():
            full = edges.whole_with(len(mask.keep_logit))
            if full is not edges.graph:
                mask = mask.of_edges(edge_numbers(full, graph.parent or graph))
        return masking._replace(mask=mask).summed(terms, graph)

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
