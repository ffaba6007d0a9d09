"""A PyG network as stages: each computes a state of all nodes from states that were computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch_geometric.nn import conv, norm
from torch_geometric.nn.models.basic_gnn import BasicGNN

from graphdrop.nn.stack import ConvStack

INPUT = "x"
ROW_WISE = (nn.Identity, nn.BatchNorm1d, nn.LayerNorm, norm.BatchNorm)
"""Normalization layers whose output for a node depends on that node alone, in evaluation."""
NORMALIZED = (conv.GCNConv, conv.GCN2Conv, conv.APPNP)
"""Layers that normalize the edges of the whole graph before they pass messages."""
LOCAL = (
    *NORMALIZED,
    conv.SAGEConv,
    conv.GATConv,
    conv.GATv2Conv,
    conv.GINConv,
    conv.PNAConv,
    conv.EdgeConv,
)
"""Layers whose output for a node depends on the edges into it."""


class Stage(NamedTuple):
    """A step of a network."""

    compute: Callable[..., Tensor]
    """From the states that are read, and the edges as keyword arguments if there is a layer."""
    reads: tuple[str, ...]
    """The names of these states."""
    writes: str
    layer: Any = None
    """The message passing layer of this stage."""
    call: int = 0
    """Which of its calls of `propagate` in a pass this is."""


def stages_of(model: nn.Module) -> list[Stage]:
    """The stages of a network, or an error that says what to do."""
    if isinstance(model, ConvStack):
        if model.input_propagation is not None:
            raise ValueError(
                "the network propagates all features over several hops at once, which "
                "layerwise=True does not divide into chunks of rows. Predict without layerwise."
            )
        found = _of_stack(model)
    elif isinstance(model, BasicGNN) and type(model).forward is BasicGNN.forward:
        found = _of_basic(model)
    else:
        raise ValueError(
            f"model is a {type(model).__name__}, whose layers layerwise=True cannot tell apart; it "
            "takes a graphdrop.GCN or a torch_geometric.nn model such as GCN, GraphSAGE, GAT or "
            "GIN. Predict without layerwise, or use one of these."
        )
    for stage in found:
        layer = stage.layer
        if layer is None:
            continue
        if not isinstance(layer, LOCAL) or layer.flow != "source_to_target":
            raise ValueError(
                f"the layer {layer} may read more than the edges into a node: layerwise=True takes "
                f"{', '.join(kind.__name__ for kind in LOCAL)} with flow='source_to_target'; "
                "predict without layerwise"
            )
    return found


def _of_basic(model: BasicGNN) -> list[Stage]:
    stages, last = list[Stage](), INPUT
    inner = model.num_layers if model.jk_mode is not None else model.num_layers - 1
    for number, (layer, layer_norm) in enumerate(zip(model.convs, model.norms, strict=True)):
        follows = number < inner
        if follows:
            _check_norm(layer_norm)

        def compute(x: Tensor, layer: Any, norm: Any, follows: bool, **edges: Any) -> Tensor:
            kept = {
                n: v for n, v in edges.items() if n == "edge_index" or getattr(model, _TAKES[n])
            }
            x = layer(x, **kept)
            if follows:
                if model.act is not None and model.act_first:
                    x = model.act(x)
                x = norm(x)
                if model.act is not None and not model.act_first:
                    x = model.act(x)
            return x

        name = f"layer {number}"
        step = partial(compute, layer=layer, norm=layer_norm, follows=follows)
        stages.append(Stage(step, (last,), name, layer))
        last = name
    if model.jk_mode is not None:
        joins = hasattr(model, "jk")
        names = [stage.writes for stage in stages] if joins else [last]

        def head(*layers: Tensor) -> Tensor:
            return model.lin(model.jk(list(layers)) if joins else layers[0])  # type: ignore[no-any-return]

        stages.append(Stage(head, tuple(names), "out"))
    return stages


_TAKES = {"edge_weight": "supports_edge_weight", "edge_attr": "supports_edge_attr"}


def _of_stack(model: ConvStack) -> list[Stage]:
    stages, last = list[Stage](), INPUT
    if model.first is not None:
        stages.append(Stage(model.enter, (last,), "initial"))
        last = "initial"
    outputs = []
    for number, layer in enumerate(model.convs):
        name = f"layer {number}"
        reads = (last, "initial") if model.architecture == "gcnii" else (last,)
        passes_messages = model.architecture != "appnp"
        step = partial(_stack_layer, model, number)
        stages.append(Stage(step, reads, name, layer if passes_messages else None))
        outputs.append(name)
        last = name
    if model.last is not None:
        names = (last,) if model.jk is None else tuple(outputs)
        stages.append(Stage(lambda *layers: model.join(list(layers)), names, "joined"))
        last = "joined"
    if model.propagation is not None:
        start = last
        for hop in range(model.propagation.K):
            name = f"hop {hop}"
            reads = (last,) if last == start else (last, start)
            stages.append(
                Stage(partial(_hop, model.propagation), reads, name, model.propagation, hop)
            )
            last = name
    return stages


def _stack_layer(  # noqa: PLR0917 - a stage is given states one by one
    model: ConvStack,
    number: int,
    x: Tensor,
    initial: Tensor | None = None,
    edge_index: Tensor | None = None,
    edge_weight: Tensor | None = None,
    **_: Any,
) -> Tensor:
    edges = [one for one in (edge_index, edge_weight) if one is not None]
    return model.layer(number, x, x if initial is None else initial, *edges)


def _hop(layer: Any, x: Tensor, *start: Tensor, edge_index: Tensor, **edges: Any) -> Tensor:
    """One step of APPNP, which goes back to its own input: the difference to the first one."""
    hops, layer.K = layer.K, 1
    try:
        out = layer(x, edge_index, edges.get("edge_weight"))
    finally:
        layer.K = hops
    return out + layer.alpha * (start[0] - x) if start else out  # type: ignore[no-any-return]


def _check_norm(layer: nn.Module) -> None:
    if isinstance(layer, norm.LayerNorm) and layer.mode == "node":
        return
    if not isinstance(layer, ROW_WISE):
        raise ValueError(
            f"the normalization layer {layer} reads all nodes at once, which are not there layer "
            "by layer: predict without layerwise, or train with norm='batch_norm' or "
            "norm='layer_norm' and norm_kwargs={'mode': 'node'}"
        )


def last_reads(stages: Sequence[Stage]) -> dict[str, int]:
    """The number of the last stage that reads each state."""
    return {name: number for number, stage in enumerate(stages) for name in stage.reads}


__all__ = ["INPUT", "NORMALIZED", "Stage", "last_reads", "stages_of"]
