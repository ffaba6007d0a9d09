"""The paper's five schematics of what each method drops in a layer, from sampled masks.

The layer has 4 nodes with 2 features in and out. Node 1 is joined to the three others, and every
node to itself. A line from feature i of node u to feature j of node v is a connection: solid where
the mask keeps it, dashed where it drops it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyBboxPatch
from numpy.typing import NDArray

from experiments.plots.style import COLOURS, GREY, INK, ONE_COLUMN, TWO_COLUMNS, print_style
from graphdrop.graph import Graph, Normalization
from graphdrop.graph.masks import multipliers
from graphdrop.kernels.reference import draw_values
from graphdrop.sampling.rates import FixedRate
from graphdrop.sampling.samplers import Draw, DropEdge, DropNode, DropOut, GraphDropConnect, Sampler

NODES, FEATURES = 4, 2
KEEP = 0.6
_FEATURE_COLOURS = COLOURS[:FEATURES]
_DROPPED, _BOX = "#9a9a9a", "#f3f3f3"
_DASH = (0, (2.2, 2.2))
_RADIUS, _LEFT, _RIGHT = 0.17, 0.0, 3.4

Kept = NDArray[np.bool_]
"""Which connections are kept, `[edges, features in, features out]`, edges as `Graph` has them."""


@dataclass(frozen=True)
class Method:
    """A schematic: its title, a caption, and the sampler; without a sampler everything is kept."""

    title: str
    sharing: str
    sampler: Sampler | None


def methods() -> dict[str, Method]:
    """The five schematics by name, in the paper's order."""
    rate = FixedRate(keep=KEEP)
    return {
        "gcn": Method("GCN layer", "drops nothing; bold: all that node 2 reads", None),
        "gdc": Method(
            "Graph DropConnect", "a draw for every connection", GraphDropConnect(rate, pairs=True)
        ),
        "dropout": Method("DropOut", "a draw for every feature of a node", DropOut(rate)),
        "dropedge": Method("DropEdge", "a draw for every edge, both ways", DropEdge(rate)),
        "node-sampling": Method("Node sampling", "a draw for every node", DropNode(rate)),
    }


def toy_graph() -> Graph:
    """The paper's graph: edges 1-2, 1-3 and 1-4 both ways, and every self-loop."""
    ends = torch.tensor([[0, 0, 0], [1, 2, 3]])
    both_ways = torch.cat([ends, ends.flip(0)], 1)
    return Graph.from_edge_index(both_ways, NODES, normalization=Normalization.ROW)


def kept_connections(sampler: Sampler | None, graph: Graph, draw: Draw) -> Kept:
    """The hard mask of the first layer."""
    shape = (graph.num_edges, FEATURES, FEATURES)
    if sampler is None:
        return np.ones(shape, dtype=bool)
    mask = sampler.mask(graph, draw, 0)
    pairs = isinstance(sampler, GraphDropConnect) and sampler.pairs
    drawn = FEATURES * FEATURES if pairs else FEATURES
    values = draw_values(graph, mask, drawn, torch.arange(graph.num_edges))
    kept = multipliers(values, mask, mask.keep_logit).bool().numpy()
    # one draw per edge, per input feature, or per pair of features
    return np.broadcast_to(kept.reshape(-1, mask.blocks or FEATURES, drawn // FEATURES), shape)


def telling_draw(seed: int) -> Draw:
    """The first step of a seed whose masks differ visibly between the methods.

    All five differ; each keeps some and drops some of what passes between different nodes, and
    keeps a share of all connections that is not far from the rate.
    """
    graph = toy_graph()
    between = (graph.draw_src != graph.draw_dst).numpy()
    for step in range(1000):
        draw = Draw(seed, step)
        kept = [kept_connections(each.sampler, graph, draw) for each in methods().values()]
        mixed = all(0 < one[between].mean() < 1 for one in kept[1:])
        mixed = mixed and all(abs(one.mean() - KEEP) <= 0.2 for one in kept[1:])
        if mixed and len({one.tobytes() for one in kept}) == len(kept):
            return draw
    raise ValueError(f"seed {seed} draws no masks that tell the methods apart: take another seed")


def draw_schematics(seed: int = 0) -> dict[str, Figure]:
    """The five schematics in one figure, `"all"`, and each by its own name."""
    graph, draw, drawn = toy_graph(), telling_draw(seed), methods()
    kept = {name: kept_connections(each.sampler, graph, draw) for name, each in drawn.items()}
    note = f"Masks drawn by the samplers at keep probability {KEEP}: seed {seed}, step {draw.step}."

    def panels(names: list[str], columns: int) -> Figure:
        rows = -(-(len(names) + 1) // columns)
        width = TWO_COLUMNS if columns > 2 else ONE_COLUMN * 1.35
        figure = Figure(figsize=(width, rows * width / columns * 1.16 + 0.15))
        place = figure.subplots(rows, columns, squeeze=False).flatten()
        figure.subplots_adjust(0.01, 0.15 / figure.get_figheight(), 0.99, 0.99, 0.04, 0.02)
        figure.text(0.5, 0.06 / figure.get_figheight(), note, ha="center", fontsize=6.5, color=GREY)
        _draw_key(place[0], graph)
        for axes, name in zip(place[1:], names, strict=True):
            _draw_layer(axes, name, drawn[name], graph, kept[name])
        return figure

    with print_style():
        return {"all": panels(list(drawn), 3)} | {name: panels([name], 2) for name in drawn}


def connection_id(name: str, source: int, i: int, destination: int, j: int) -> str:
    """The name of a line in the picture, and of its element in the SVG; nodes count from 1."""
    return f"{name}-from-{source + 1}.{i + 1}-to-{destination + 1}.{j + 1}"


def _row(node: int, feature: float) -> float:
    """The height at which a feature of a node stands."""
    return -1.15 * node - 0.46 * feature


def _draw_layer(axes: Axes, name: str, method: Method, graph: Graph, kept: Kept) -> None:
    ends = list(zip(graph.draw_src.tolist(), graph.draw_dst.tolist(), strict=True))
    for edge, i, j in np.ndindex(kept.shape):
        (source, destination), keeps = ends[edge], bool(kept[edge, i, j])
        bold = method.sampler is None and destination == 1
        line = Line2D(
            [_LEFT + _RADIUS, _RIGHT - _RADIUS],
            [_row(source, i), _row(destination, j)],
            color=_FEATURE_COLOURS[i] if keeps else _DROPPED,
            linestyle="-" if keeps else _DASH,
            linewidth=(1.6 if bold else 0.9) if keeps else 0.6,
            zorder=2 if keeps else 1,
            gid=connection_id(name, source, i, destination, j),
        )
        axes.add_line(line)
    sent = {
        (u, i): any(kept[edge, i].any() for edge, (source, _) in enumerate(ends) if source == u)
        for u in range(NODES)
        for i in range(FEATURES)
    }
    for node in range(NODES):
        _draw_node(axes, _LEFT, node, [sent[node, i] for i in range(FEATURES)])
        _draw_node(axes, _RIGHT, node, [True] * FEATURES, receives=True)
    for x, text in ((_LEFT, "layer $l$"), (_RIGHT, "layer $l+1$")):
        axes.text(x, 0.42, text, ha="center", fontsize=8)
    middle = (_LEFT + _RIGHT) / 2
    axes.text(middle, 1.22, method.title, ha="center", fontsize=10, fontweight="bold")
    axes.text(middle, 0.87, method.sharing, ha="center", fontsize=8, color=GREY)
    _bare(axes)


def _draw_node(
    axes: Axes, x: float, node: int, sent: list[bool], *, receives: bool = False
) -> None:
    """A box with a circle for each feature; faded where nothing of it is passed on."""
    alive = any(sent)
    low, high = _row(node, FEATURES - 1), _row(node, 0)
    box = FancyBboxPatch(
        (x - 0.16, low - 0.16),
        0.32,
        high - low + 0.32,
        boxstyle="round,pad=0.1",
        facecolor=_BOX if alive else "white",
        edgecolor=GREY if alive else _DROPPED,
        linestyle="-" if alive else _DASH,
        linewidth=0.8,
        zorder=0,
    )
    axes.add_patch(box)
    for feature, passed in enumerate(sent):
        colour = "white" if receives or not passed else _FEATURE_COLOURS[feature]
        edge = INK if receives else _FEATURE_COLOURS[feature] if passed else _DROPPED
        circle = Circle((x, _row(node, feature)), _RADIUS, facecolor=colour, edgecolor=edge)
        circle.set(linewidth=0.8, linestyle="-" if passed else _DASH, zorder=3)
        axes.add_patch(circle)
        ink = _DROPPED if not passed else INK if receives else "white"
        place = (x, _row(node, feature))
        axes.annotate(
            str(feature + 1), place, ha="center", va="center_baseline", fontsize=6.5, color=ink
        ).set_zorder(4)
    side = 0.45 if receives else -0.45
    axes.text(
        x + side,
        (low + high) / 2,
        f"$n_{node + 1}$",
        ha="center",
        va="center",
        fontsize=9,
        color=INK if alive else _DROPPED,
    )


def _draw_key(axes: Axes, graph: Graph) -> None:
    """The graph itself, and what the lines and circles mean."""
    middle = (_LEFT + _RIGHT) / 2
    places = {0: (middle, -0.75), 1: (middle - 0.55, 0.25), 2: (middle + 1, -1.5)}
    places[3] = (middle - 1, -1.5)
    for u, v in zip(graph.draw_src.tolist(), graph.draw_dst.tolist(), strict=True):
        if u < v:
            axes.plot(*zip(places[u], places[v], strict=True), color=GREY, linewidth=1, zorder=1)
    for node, place in places.items():
        axes.add_patch(Circle(place, 0.27, facecolor=_BOX, edgecolor=GREY, linewidth=0.8, zorder=2))
        axes.text(*place, f"$n_{node + 1}$", ha="center", va="center", fontsize=9, zorder=3)
    axes.text(middle, 1.22, "Input graph", ha="center", fontsize=10, fontweight="bold")
    axes.text(middle, 0.87, "every node also reads itself", ha="center", fontsize=8, color=GREY)
    lines: dict[str, dict[str, Any]] = {
        "kept, from feature 1": {"color": _FEATURE_COLOURS[0], "linewidth": 1.2},
        "kept, from feature 2": {"color": _FEATURE_COLOURS[1], "linewidth": 1.2},
        "dropped": {"color": _DROPPED, "linewidth": 0.8, "linestyle": _DASH},
    }
    for number, (text, look) in enumerate(lines.items()):
        y = -2.45 - 0.42 * number
        axes.add_line(Line2D([middle - 1.35, middle - 0.65], [y, y], **look))
        axes.text(middle - 0.45, y, text, va="center", fontsize=8)
    y = -2.45 - 0.42 * len(lines)
    axes.add_patch(
        Circle((middle - 1, y), _RADIUS, facecolor="white", edgecolor=_DROPPED, linestyle=_DASH)
    )
    axes.text(middle - 0.45, y, "passes nothing on", va="center", fontsize=8)
    _bare(axes)


def _bare(axes: Axes) -> None:
    axes.set(xlim=(_LEFT - 0.75, _RIGHT + 0.75), ylim=(_row(3, 1) - 0.4, 1.6), aspect="equal")
    axes.axis("off")
