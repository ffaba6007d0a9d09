"""Figures of differences with their intervals: a line for every arm, a panel for every score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from experiments.plots.style import COLOURS, GREY, TWO_COLUMNS, print_style

__all__ = ["Interval", "draw_differences"]

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_ROW_HEIGHT, _MARGIN, _SPREAD = 0.3, 1.1, 0.7  # inches, inches, of a row's height


@dataclass(frozen=True)
class Interval:
    """A difference and its interval."""

    mean: float
    low: float
    high: float


def draw_differences(
    rows: Sequence[str],
    panels: Mapping[str, Mapping[str, Sequence[Interval | None]]],
    *,
    quick: bool = False,
) -> Figure:
    """Draw the differences of all rows, one below the other, in a panel for every score.

    Args:
        rows: the names of the arms.
        panels: by the label of a score and then by the name of a graph, an interval for every row,
            ``None`` where there is none; at most seven graphs.
        quick: mark the figure as one of quick runs.

    Example:
        >>> panels = {"accuracy (points)": {"cora": [Interval(0.5, -0.1, 1.1)]}}
        >>> figure = draw_differences(["no masks"], panels)
        >>> figure.axes[0].get_xlabel()
        'accuracy (points)'
    """
    graphs = list(dict.fromkeys(graph for by_graph in panels.values() for graph in by_graph))
    if not rows or not 1 <= len(graphs) <= len(_MARKERS):
        raise ValueError(
            f"draw_differences has {len(rows)} rows and {len(graphs)} graphs; it takes at least "
            f"one row and 1 to {len(_MARKERS)} graphs. Draw fewer in one figure."
        )
    with print_style():
        height = _MARGIN + _ROW_HEIGHT * len(rows)
        figure = Figure(figsize=(TWO_COLUMNS, height), layout="constrained")
        for number, (label, by_graph) in enumerate(panels.items()):
            axes = figure.add_subplot(1, len(panels), number + 1)
            axes.axvline(0.0, color=GREY, linewidth=0.8)
            for k, graph in enumerate(graphs):
                offset = _SPREAD * ((k + 0.5) / len(graphs) - 0.5)
                shown = [
                    (row + offset, one)
                    for row, one in enumerate(by_graph.get(graph, ()))
                    if one is not None and math.isfinite(one.mean)
                ]
                axes.errorbar(
                    [one.mean for _, one in shown],
                    [place for place, _ in shown],
                    xerr=[
                        [one.mean - one.low for _, one in shown],
                        [one.high - one.mean for _, one in shown],
                    ],
                    fmt=_MARKERS[k],
                    color=COLOURS[k],
                    markersize=3.5,
                    elinewidth=0.8,
                    label=graph if number == 0 else None,
                )
            axes.set_yticks(range(len(rows)), rows if number == 0 else [""] * len(rows))
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_xlabel(label)
            if quick:
                axes.set_title("quick run")
        figure.legend(loc="outside lower center", ncols=min(4, len(graphs)), frameon=False)
    return figure
