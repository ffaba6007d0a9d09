"""One pass through one layer, with a draw that is given."""

from typing import Any

from torch import Tensor

from graphdrop.graph import Graph
from graphdrop.nn import SampledGCNConv
from graphdrop.nn.conv import SharedProduct
from graphdrop.sampling.samplers import Draw


def one_pass(
    layer: SampledGCNConv,
    x: Any,
    graph: Graph,
    draw: Draw | None,
    number: int = 0,
    shared: SharedProduct | None = None,
) -> Tensor:
    """The output of a layer of this number; without a draw, under the expected mask."""
    (drawn,) = layer.passes(graph, [draw], number)
    out: Tensor = layer(x, graph, drawn=drawn, shared=shared)
    return out
