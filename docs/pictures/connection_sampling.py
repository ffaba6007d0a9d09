"""Draws what each way of connection sampling drops, on a graph of 4 nodes with 2 features.

Run it to redraw the picture: python docs/pictures/connection_sampling.py
"""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle
from matplotlib.path import Path as BezierPath
from numpy.typing import NDArray

NODES, FEATURES = 4, 2
POSITIONS = np.array([[-0.95, 0.62], [-0.95, -0.62], [0.12, 0.0], [1.2, 0.0]])
EDGES = [(0, 1), (0, 2), (1, 2), (2, 3)]
OUTWARD = np.radians([125, 235, 75, 0])  # where a node's message to itself finds room
COLOURS = ["#0072B2", "#E69F00"]  # blue and orange: apart for every eye, and in grey
INK, GREY, DROPPED, FAINT = "#222222", "#555555", "#8c8c8c", "#dddddd"

Point = NDArray[np.float64]
Masks = NDArray[np.bool_]  # (receiving node v, sending node u, feature i): True keeps


def draw_masks(keep: float = 0.6, seed: int = 1633) -> dict[str, Masks]:
    """One draw of every method; what differs is which entries share it."""
    generator = np.random.default_rng(seed)

    def draw(*shape: int) -> Masks:
        return generator.random(shape) < keep

    shape = (NODES, NODES, FEATURES)
    edge = draw(NODES, NODES)
    edge = np.triu(edge) | np.triu(edge).T
    return {
        "DropOut": np.broadcast_to(draw(1, NODES, FEATURES), shape),
        "DropEdge": np.broadcast_to(edge[:, :, None], shape),
        "Node sampling": np.broadcast_to(draw(1, NODES, 1), shape),
        "Graph DropConnect": draw(*shape),
    }


SHARING = {
    "DropOut": "one draw for each node and feature",
    "DropEdge": "one draw for each edge, both ways",
    "Node sampling": "one draw for each node",
    "Graph DropConnect": "one draw for each connection and feature",
}


def draw_message(axes: Axes, path: BezierPath, kept: bool, feature: int) -> None:
    """A strand: solid in its feature's colour, or dotted where it is dropped."""
    strand = FancyArrowPatch(path=path, arrowstyle="-|>" if kept else "-", mutation_scale=7)
    strand.set(color=COLOURS[feature] if kept else DROPPED, linewidth=2.0 if kept else 0.9)
    strand.set(linestyle="-" if kept else (0, (1.5, 2.0)), zorder=2 if kept else 1)
    axes.add_patch(strand)


def loop_path(centre: Point, radius: float, outward: float, feature: int) -> BezierPath:
    """A node's message to itself: the part of a circle that lies outside the node."""
    middle = centre + (radius + 0.035) * np.array([np.cos(outward), np.sin(outward)])
    angles = outward + np.linspace(-np.pi, np.pi, 61)
    circle = middle + (0.1 + 0.075 * feature) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return BezierPath(circle[np.linalg.norm(circle - centre, axis=1) > radius])


def draw_graph(axes: Axes, masks: Masks) -> None:
    """Every message as a strand from sender to receiver, beside the line between the two."""
    radius = 0.185
    for a, b in EDGES:
        for sender, receiver in [(a, b), (b, a)]:
            along = POSITIONS[receiver] - POSITIONS[sender]
            along = along / np.linalg.norm(along)
            aside = np.array([along[1], -along[0]])
            for feature in range(FEATURES):
                offset = (0.04 + 0.075 * feature) * aside
                start = POSITIONS[sender] + (radius + 0.03) * along + offset
                end = POSITIONS[receiver] - (radius + 0.03) * along + offset
                kept = bool(masks[receiver, sender, feature])
                draw_message(axes, BezierPath([start, end]), kept, feature)
    for node, (x, y) in enumerate(POSITIONS):
        for feature in range(FEATURES):
            loop = loop_path(POSITIONS[node], radius + 0.03, OUTWARD[node], feature)
            draw_message(axes, loop, bool(masks[node, node, feature]), feature)
        axes.add_patch(Circle((x, y), radius, facecolor="white", edgecolor=INK, linewidth=1.3))
        axes.text(x, y, str(node + 1), ha="center", va="center_baseline", fontsize=11, color=INK)
    axes.set(xlim=(-1.55, 1.75), ylim=(-1.2, 1.2), aspect="equal")
    axes.axis("off")


def draw_matrix(axes: Axes, masks: Masks, feature: int) -> None:
    """The mask of one feature: row v receives, column u sends; blank where there is no edge."""
    connected = {(v, u) for a, b in EDGES for v, u in [(a, b), (b, a)]}
    connected |= {(v, v) for v in range(NODES)}
    middle: dict[str, Any] = {"ha": "center", "va": "center_baseline", "color": INK}
    for v in range(NODES):
        for u in range(NODES):
            here, kept = (v, u) in connected, bool(masks[v, u, feature])
            colour = COLOURS[feature] if here and kept else "white"
            corner = (u, NODES - 1 - v)
            axes.add_patch(Rectangle(corner, 1, 1, facecolor=colour, edgecolor=FAINT))
            ink = DROPPED if not kept else "white" if feature == 0 else INK
            digit = str(int(kept)) if here else ""
            axes.text(u + 0.5, NODES - 0.5 - v, digit, fontsize=9, **(middle | {"color": ink}))
    for node in range(NODES):
        axes.text(node + 0.5, NODES + 0.45, str(node + 1), fontsize=7.5, **middle)
        axes.text(-0.4, NODES - 0.5 - node, str(node + 1), fontsize=7.5, **middle)
    axes.set_title(f"feature {feature + 1}", fontsize=9, color=INK, pad=9)
    axes.set(xlim=(-0.6, NODES + 0.05), ylim=(-0.05, NODES + 0.6), aspect="equal")
    axes.axis("off")


def draw_picture() -> Figure:
    """Four panels: the method, what shares a draw, the messages, the two masks."""
    figure = plt.figure(figsize=(11, 5.4), facecolor="white")
    for panel, (name, masks) in enumerate(draw_masks().items()):
        row, column = divmod(panel, 2)
        left, bottom = 0.01 + 0.505 * column, 0.545 - 0.465 * row
        figure.text(left + 0.015, bottom + 0.385, name, fontsize=13, weight="bold", color=INK)
        figure.text(left + 0.015, bottom + 0.335, SHARING[name], fontsize=10, color=GREY)
        draw_graph(figure.add_axes((left, bottom - 0.03, 0.24, 0.37)), masks)
        for feature in range(FEATURES):
            place = (left + 0.25 + 0.117 * feature, bottom + 0.01, 0.112, 0.29)
            draw_matrix(figure.add_axes(place), masks, feature)
    legend = (
        "Arrows are messages, one strand for each feature; dotted ones are dropped.   "
        "The matrices are the same masks: row receives, column sends, blank is no edge."
    )
    figure.text(0.5, 0.025, legend, ha="center", fontsize=9.5, color=GREY)
    return figure


def main() -> None:
    mpl.rcParams["svg.hashsalt"] = "graphdrop"  # the same bytes every time
    path = Path(__file__).with_name("connection-sampling.svg")
    draw_picture().savefig(path, metadata={"Date": None})
    print(f"Drew {path}")


if __name__ == "__main__":
    main()
