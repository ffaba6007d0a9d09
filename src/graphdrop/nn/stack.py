"""``ConvStack``: a network of PyG layers by name, with residuals and normalization layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch_geometric.nn import JumpingKnowledge, Linear, conv

from graphdrop.nn.features import Features, LazyMatrix, SparseFeatures, dropout, linear
from graphdrop.nn.inputs import Inputs
from graphdrop.nn.propagation import MixedOrderPropagation
from graphdrop.nn.skip_connections import norm_layer

HOPS, TELEPORT = 10, 0.1
"""APPNP: number of propagation steps, and the teleport probability."""
INITIAL, DECAY = 0.1, 0.5
"""GCNII: `alpha`, the weight of the first layer's output, and `theta`, of the identity map."""


def _attention(kind: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    def make(inputs: int, outputs: int, heads: int, last: bool) -> nn.Module:
        heads = 1 if last or outputs % heads else heads
        layer: nn.Module = kind(inputs, outputs // heads, heads=heads)
        return layer

    return make


def _plain(kind: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    return lambda inputs, outputs, _heads, _last: kind(inputs, outputs)


def _gin(inputs: int, outputs: int, _heads: int, _last: bool) -> nn.Module:
    network = nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU(), nn.Linear(outputs, outputs))
    layer: nn.Module = conv.GINConv(network, train_eps=True)
    return layer


LAYERS: dict[str, Callable[..., nn.Module]] = {
    "gat": _attention(conv.GATConv),
    "gatv2": _attention(conv.GATv2Conv),
    "sage": _plain(conv.SAGEConv),
    "gin": _gin,
}
"""Builders of layers by architecture; GCNII, APPNP and the MLP of a propagation are built apart."""
LINEAR = ("appnp", "propagation")
"""Architectures whose layers are linear maps: messages pass behind or before all of them."""
MULTIPLYING = ("gat", "gatv2", "sage", *LINEAR)
"""Architectures whose first layer multiplies its input by weights, before or after a mean."""
WEIGHTED = ("gcnii", *LINEAR)
"""Architectures that take edge weights."""


class ConvStack(nn.Module):
    """A network of PyG's layers: each followed by a normalization layer, a relu and DropOut.

    Args:
        architecture: ``gat``, ``gatv2``, ``sage``, ``gin``, ``gcnii``, ``appnp`` or
            ``propagation``.
        in_channels: number of features of a node.
        hidden_channels: width of the hidden layers.
        num_layers: number of layers; for APPNP and ``propagation`` those of the MLP.
        out_channels: number of classes, or of targets.
        dropout: drop rate of DropOut on the input of every layer.
        norm: normalization layer after every hidden layer, and of propagated features:
            ``"batch"``, ``"layer"`` or ``None``.
        residual: add a linear map of a layer's input to its output.
        jk: jumping knowledge: the outputs of all layers, joined by ``"cat"`` or ``"max"``, or the
            ``"last"``, go into a last linear layer; ``None`` is without.
        heads: number of attention heads, if it divides the width.
        input_propagation: a module that is applied to features and edges before all layers, such
            as ``MixedOrderPropagation``.
        input_dropout: drop rate of the first layer's input, if that is not ``dropout``.
        propagate: with ``input_propagation``, what it is applied to: the ``"features"``, or the
            first layer's output without its bias, ``"hidden"``. The features, which may be sparse,
            have their DropOut then before the propagation, and no normalization layer; a residual
            of the first layer reads them as they are.

    Example:
        >>> from graphdrop.nn.propagation import MixedOrderPropagation
        >>> hops = MixedOrderPropagation(8)
        >>> stack = ConvStack(
        ...     "propagation", 9, 4, 2, 3, input_propagation=hops, propagate="hidden"
        ... )
        >>> stack(torch.eye(9), torch.tensor([[0, 1], [1, 0]])).shape
        torch.Size([9, 3])
    """

    def __init__(
        self,
        architecture: str,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        norm: Literal["batch", "layer"] | None = None,
        residual: bool = False,
        jk: Literal["cat", "max", "last"] | None = None,
        heads: int = 8,
        input_propagation: nn.Module | None = None,
        input_dropout: float | None = None,
        propagate: Literal["features", "hidden"] = "features",
    ) -> None:
        super().__init__()
        self.architecture, self.dropout = architecture, dropout
        self.input_propagation = input_propagation
        self.propagates_hidden = input_propagation is not None and propagate == "hidden"
        self._inputs = Inputs()
        normalized = input_propagation is not None and not self.propagates_hidden
        wide = in_channels
        if getattr(input_propagation, "combine", "mean") == "concat":
            wide *= cast("MixedOrderPropagation", input_propagation).orders + 1
        self.in_channels = in_channels
        self.input_norm = norm_layer(norm if normalized else None, wide)
        self.input_dropout = input_dropout if input_propagation is not None else None
        self.first = self.propagation = None
        inputs = wide
        count = num_layers
        if architecture == "gcnii":
            self.first, inputs = Linear(in_channels, hidden_channels), hidden_channels
        joined = jk is not None or architecture == "gcnii"
        widths = [hidden_channels] * (count if joined else count - 1)
        widths += [] if joined else [out_channels]
        self.convs, self.norms, self.skips = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for number, width in enumerate(widths):
            last = not joined and number + 1 == len(widths)
            self.convs.append(self._layer(inputs, width, heads, number, last))
            if not last:
                self.norms.append(norm_layer(norm, width))
                read = in_channels if number == 0 and self.propagates_hidden else inputs
                self.skips.append(Linear(read, width) if residual else nn.Identity())
            inputs = width
        self.residual = residual
        self.jk: Any = None
        if jk in ("cat", "max"):
            self.jk = JumpingKnowledge(jk)
        joined_width = hidden_channels * (len(widths) if jk == "cat" else 1)
        self.last = Linear(joined_width, out_channels) if joined else None
        if architecture == "appnp":
            self.propagation = conv.APPNP(HOPS, TELEPORT)

    def _layer(self, inputs: int, outputs: int, heads: int, number: int, last: bool) -> nn.Module:
        layer: nn.Module
        if self.architecture in LINEAR:
            layer = Linear(inputs, outputs)
            return layer
        if self.architecture == "gcnii":
            layer = conv.GCN2Conv(outputs, INITIAL, DECAY, layer=number + 1)
            return layer
        return LAYERS[self.architecture](inputs, outputs, heads, last)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Outputs ``[nodes, out_channels]``."""
        if edge_weight is not None and self.architecture not in WEIGHTED:
            raise ValueError(
                f"the graph has edge weights, which {self.architecture} does not read: take them "
                f"out of the data, or choose {', '.join(('gcn', *WEIGHTED))}"
            )
        edges = (edge_index,) if edge_weight is None else (edge_index, edge_weight)
        features = self._read(x)
        if self.input_propagation is not None and not self.propagates_hidden:
            features = self.input_norm(self.input_propagation(features, *edges))
        if self.first is not None:
            features = linear(self._drop(features, self.dropout), self.first).relu()
        initial, outputs = features, list[Tensor]()
        for number in range(len(self.convs)):
            features = self.layer(number, features, initial, *edges)
            outputs.append(features)
        out = self.join(outputs)
        return out if self.propagation is None else self.propagation(out, *edges)

    def layer(self, number: int, x: Features, initial: Features, *edges: Tensor) -> Tensor:
        """The output of a layer with what follows it."""
        dropped = self._drop(x, self._input_rate if number == 0 else self.dropout)
        if number == 0 and self.propagates_hidden:
            out = self._propagate_hidden(self.convs[0], dropped, edges)
        else:
            out = self._apply_layer(self.convs[number], dropped, initial, edges)
        if number == len(self.norms):
            return out
        if self.residual:
            out = out + linear(x, cast("Linear", self.skips[number]))
        followed: Tensor = self.norms[number](out).relu()
        return followed

    def join(self, outputs: list[Tensor]) -> Tensor:
        """The last linear layer, if there is one, on the outputs of layers."""
        out = outputs[-1]
        if self.last is None:
            return out
        return self.last(out if self.jk is None else self.jk(outputs))  # type: ignore[no-any-return]

    def _read(self, x: Tensor) -> Features:
        """Features as the first layer reads them: sparse if few are nonzero."""
        if isinstance(x, LazyMatrix):
            return x
        multiplies = self.first is not None or (
            self.architecture in MULTIPLYING
            and (self.input_propagation is None or self.propagates_hidden)
        )
        if multiplies and not torch.compiler.is_compiling():
            dtype = next(self.parameters()).dtype
            return self._inputs.features(x, self.in_channels, dtype, sparse=True)
        return x if x.layout is torch.strided else x.to_dense()

    @property
    def _input_rate(self) -> float:
        return self.dropout if self.input_dropout is None else self.input_dropout

    def _drop(self, x: Features, rate: float) -> Features:
        return dropout(x, rate) if self.training else x

    def _propagate_hidden(self, layer: Any, x: Features, edges: tuple[Tensor, ...]) -> Tensor:
        """The first layer's output, propagated before its bias is added."""
        assert self.input_propagation is not None  # noqa: S101 - as propagates_hidden says
        weight = layer.weight.t().contiguous()
        out: Tensor = self.input_propagation(x, *edges, weight=weight) + layer.bias
        return out

    def _apply_layer(
        self, layer: Any, x: Features, initial: Features, edges: tuple[Tensor, ...]
    ) -> Tensor:
        if self.architecture in LINEAR:
            return linear(x, layer)
        if isinstance(x, SparseFeatures):
            x = LazyMatrix.of(x)
        given = (x, initial, *edges) if self.architecture == "gcnii" else (x, *edges)
        out: Tensor = layer(*given)
        return out

    def extra_repr(self) -> str:
        """The architecture and the DropOut."""
        return f"{self.architecture}, dropout={self.dropout:g}"
