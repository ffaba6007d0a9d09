"""Figures of distributions: a dot for every run, and a line where a printed figure lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from experiments.plots.style import COLOURS, INK, TWO_COLUMNS, print_style

__all__ = ["Distribution", "draw_distributions"]

_PANEL_HEIGHT, _MARGIN = 1.15, 0.4  # inches


@dataclass(frozen=True)
class Distribution:
    """The values of all runs, and what was printed of them elsewhere, if anything."""

    values: Sequence[float]
    printed: float | None = None


def draw_distributions(
    panels: Mapping[str, Distribution], x_label: str, *, width: float, quick: bool = False
) -> Figure:
    """Draw panels below each other; values that fall into one step are stacked.

    Steps begin at the printed figure: dots on its right are at or above it.

    Args:
        panels: by title.
        x_label: what the values are, with their unit.
        width: of a step.
        quick: mark the figure as one of quick runs.

    Example:
        >>> panels = {"2 layers": Distribution([80.1, 80.2, 81.0], printed=80.5)}
        >>> draw_distributions(panels, "accuracy (%)", width=0.5).axes[0].get_ylabel()
        'runs'
    """
    if not panels or width <= 0.0:
        raise ValueError(
            f"draw_distributions has {len(panels)} panels and a width of {width}; it takes at "
            "least one panel and a width above 0. Give both."
        )
    with print_style():
        height = _MARGIN + _PANEL_HEIGHT * len(panels)
        figure = Figure(figsize=(TWO_COLUMNS, height), layout="constrained")
        shared = None
        for number, (title, one) in enumerate(panels.items()):
            axes = figure.add_subplot(len(panels), 1, number + 1, sharex=shared)
            shared = shared or axes
            axes.plot(*_stacked(one, width), "o", color=COLOURS[0], markersize=3.5)
            if one.printed is not None:
                axes.axvline(one.printed, color=COLOURS[1], linestyle=(0, (4, 2)))
                axes.annotate(
                    f"printed {one.printed:.2f}",
                    (one.printed, 0.98),
                    xycoords=("data", "axes fraction"),
                    xytext=(3, 0),
                    textcoords="offset points",
                    va="top",
                    fontsize=8,
                    color=INK,
                )
            axes.set_title(f"{title}, quick run" if quick else title)
            axes.set_ylabel("runs")
            axes.set_ylim(bottom=0.0)
            axes.margins(y=0.25)
            axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
            if number == len(panels) - 1:
                axes.set_xlabel(x_label)
    return figure


def _stacked(one: Distribution, width: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The middle of each value's step, and its height among those in the same step, from 1."""
    start = one.printed or 0.0
    # What is printed has few digits: a value at it must not fall below it by rounding.
    steps = np.floor((np.sort(np.asarray(one.values, dtype=float)) - start) / width + 1e-9)
    first = np.searchsorted(steps, steps, side="left")
    places: NDArray[np.float64] = start + (steps + 0.5) * width
    heights: NDArray[np.float64] = np.arange(1, len(steps) + 1, dtype=float) - first
    return places, heights
