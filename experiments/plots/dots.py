"""Figures with a point for every method and graph, and a bar for its deviation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from experiments.plots.style import COLOURS, GREY, TWO_COLUMNS, print_style

__all__ = ["Dots", "draw_dots"]

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_GROUP_HEIGHT, _MARGIN, _SPREAD = 0.45, 0.95, 0.6  # inches, inches, of a group's height
_CHARACTERS = 110
"""Of the legend in one line, with six for every marker."""
_LINES = ("-", (0, (3, 1.5)), (0, (1, 1)))


@dataclass(frozen=True)
class Dots:
    """The points of one method: a value for every group, NaN where there is none."""

    label: str
    values: Sequence[float]
    deviations: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if self.deviations is not None and len(self.deviations) != len(self.values):
            raise ValueError(
                f"deviations of {self.label!r} has {len(self.deviations)} entries; it takes one "
                f"for each of the {len(self.values)} values. Give NaN where there is none."
            )


def draw_dots(
    groups: Sequence[str],
    dots: Sequence[Dots],
    x_label: str,
    *,
    marks: Mapping[str, Sequence[float]] | None = None,
    quick: bool = False,
) -> Figure:
    """Draw groups below each other, with the points of all methods in each.

    Args:
        groups: names of the groups, such as graphs.
        dots: at most seven methods.
        x_label: what the values are, with their unit.
        marks: vertical strokes by their name, a value for every group, such as a record.
        quick: mark the figure as one of quick runs.

    Example:
        >>> figure = draw_dots(["cora"], [Dots("GCN", [2.5], [0.3])], "ECE (%)")
        >>> figure.axes[0].get_xlabel()
        'ECE (%)'
    """
    if not groups or not dots or len(dots) > len(_MARKERS):
        raise ValueError(
            f"draw_dots has {len(groups)} groups and {len(dots)} methods; it takes at least one "
            f"group and 1 to {len(_MARKERS)} methods. Draw fewer in one figure."
        )
    with print_style():
        height = _MARGIN + _GROUP_HEIGHT * len(groups)
        figure = Figure(figsize=(TWO_COLUMNS, height), layout="constrained")
        axes = figure.add_subplot()
        for number, one in enumerate(dots):
            offset = _SPREAD * ((number + 0.5) / len(dots) - 0.5)
            places = [row + offset for row in range(len(groups))]
            spread = one.deviations or [math.nan] * len(groups)
            axes.errorbar(
                one.values,
                places,
                xerr=[0.0 if math.isnan(width) else width for width in spread],
                fmt=_MARKERS[number],
                color=COLOURS[number],
                markersize=4,
                elinewidth=0.8,
                label=one.label,
            )
        for (name, values), line in zip((marks or {}).items(), _LINES, strict=False):
            rows = range(len(groups))
            low, high = ([row + side for row in rows] for side in (-0.42, 0.42))
            axes.vlines(values, low, high, color=GREY, linestyle=line, linewidth=1.1, label=name)
        axes.set_yticks(range(len(groups)), groups)
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.set_xlabel(x_label)
        if quick:
            axes.set_title("quick run")
        longest = max(len(one.label) for one in dots)
        columns = max(1, min(4, _CHARACTERS // (longest + 6)))
        figure.legend(loc="outside lower center", ncols=columns, frameon=False)
    return figure
