"""Figures for print: curves with bands over runs, and reliability diagrams, as SVG and PNG.

Every label has one colour, line style and marker in all panels of a figure, so that it
can be distinguished with colour blindness and in grey. Legend and footnote are below the panels.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from scipy import stats

from experiments.plots.style import (
    COLOURS,
    FAINT,
    GREY,
    ONE_COLUMN,
    TWO_COLUMNS,
    print_style,
    save_figure,
)

__all__ = ["Band", "Curve", "Panel", "draw_figure", "mean_and_band", "save_figure"]

_DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.6)),
    (0, (6, 1.4, 1.2, 1.4)),
    (0, (1.2, 1.2)),
    (0, (6, 1.4, 1.2, 1.4, 1.2, 1.4)),
    (0, (9, 2)),
    (0, (3, 1, 3, 3)),
)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_MARKERS_ON_A_CURVE = 8
_PANEL_HEIGHT, _NOTE_LINE, _GAP = 2.15, 0.115, 0.06  # inches
_NOTE_SIZE = 6.5
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """One line of a panel: its values at `x` in every run; NaN where a run has none.

    A reliability panel reads `x` as the middles of the confidence bins and `runs` as accuracies;
    `counts`, if given, are the examples in each bin, in the shape of `runs`.
    """

    label: str
    x: Sequence[float]
    runs: Sequence[Sequence[float]]
    counts: Sequence[Sequence[float]] | None = None

    def __post_init__(self) -> None:
        if not self.label.strip():
            raise ValueError("label is empty: give every curve the name its legend shows")
        x = np.asarray(self.x, dtype=np.float64)
        if x.ndim != 1 or x.size == 0 or not np.isfinite(x).all() or (np.diff(x) <= 0).any():
            raise ValueError(
                f"x of {self.label!r} takes one or more finite numbers that increase; "
                f"got {list(self.x)!r:.80}"
            )
        self._check("runs", self.runs)
        if np.isnan(self.values).all():
            raise ValueError(f"runs of {self.label!r} are all NaN: leave the curve out")
        if self.counts is not None:
            self._check("counts", self.counts)
            counts = np.asarray(self.counts, dtype=np.float64)
            if len(counts) != len(self.runs) or not (counts >= 0).all():
                raise ValueError(
                    f"counts of {self.label!r} take a number of examples, 0 or more, for every bin "
                    f"of the {len(self.runs)} runs; got {len(counts)} runs, smallest {counts.min()}"
                )

    def _check(self, name: str, rows: Sequence[Sequence[float]]) -> None:
        if len(rows) == 0:
            raise ValueError(f"{name} of {self.label!r} are empty: give one row of values per run")
        for number, row in enumerate(rows):
            if len(row) != len(self.x):
                raise ValueError(
                    f"{name}[{number}] of {self.label!r} has {len(row)} values for {len(self.x)} "
                    "places x: fill up with NaN where a run has none"
                )
            if np.isinf(np.asarray(row, dtype=np.float64)).any():
                raise ValueError(
                    f"{name}[{number}] of {self.label!r} holds an infinite value: "
                    "a figure takes finite ones, or NaN for none"
                )

    @property
    def values(self) -> Array:
        """The runs as an array `[runs, places]`."""
        return np.asarray(self.runs, dtype=np.float64)


@dataclass(frozen=True)
class Panel:
    """One pair of axes; labels name their units."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    kind: Literal["curve", "reliability"] = "curve"
    integer_x: bool = False
    """Ticks on whole numbers only, such as a depth."""
    log_y: bool = False
    y_limits: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("curve", "reliability"):
            raise ValueError(f"kind is {self.kind!r}; it takes 'curve' or 'reliability'")
        if not self.curves:
            raise ValueError(f"curves of panel {self.title!r} are empty: give at least one Curve")
        labels = [curve.label for curve in self.curves]
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            raise ValueError(
                f"curves of panel {self.title!r} share the label {', '.join(map(repr, twice))}: "
                "put the runs of one label into one Curve"
            )
        for curve in self.curves:
            self._check(curve)

    def _check(self, curve: Curve) -> None:
        where = f"curve {curve.label!r} of panel {self.title!r}"
        low, high = float(np.nanmin(curve.values)), float(np.nanmax(curve.values))
        if self.kind == "reliability" and not (
            low >= 0 and high <= 1 and curve.x[0] >= 0 and curve.x[-1] <= 1
        ):
            raise ValueError(
                f"{where} is not of fractions: a reliability panel takes confidences x and "
                f"accuracies in [0, 1]; got x in [{curve.x[0]:g}, {curve.x[-1]:g}], "
                f"runs in [{low:g}, {high:g}]"
            )
        if self.kind == "curve" and curve.counts is not None:
            raise ValueError(f"{where} has counts, which only kind='reliability' shows")
        if self.integer_x and any(place != round(place) for place in curve.x):
            raise ValueError(f"{where} has an x that is not whole; use integer_x=False")
        if self.log_y and low <= 0:
            raise ValueError(f"{where} reaches {low:g}, but log_y takes positive values only")


class Band(NamedTuple):
    """Mean over runs, and the ends of its 95 % interval; NaN where there is none, `[places]`."""

    mean: Array
    low: Array
    high: Array


def mean_and_band(values: Array) -> Band:
    """Mean over runs `[runs, places]` and its t interval, at each place over the runs with a value.

    `mean +- t(0.975, n - 1) * s / sqrt(n)`; a place with one value has a mean and no interval.
    """
    count = (~np.isnan(values)).sum(0)
    mean = np.nansum(values, 0) / np.where(count > 0, count, np.nan)
    freedom = np.where(count > 1, count - 1, np.nan)
    deviation = np.sqrt(np.nansum((values - mean) ** 2, 0) / freedom)
    half = stats.t.ppf(0.975, freedom) * deviation / np.sqrt(count.clip(1))
    return Band(mean, mean - half, mean + half)


def draw_figure(
    panels: Sequence[Panel], *, columns: int | None = None, note: str = "", quick: bool = False
) -> Figure:
    """Draw panels side by side, `columns` in a row, at the width of one or two columns of print.

    Args:
        panels: what to draw; the same label looks the same in all of them.
        columns: panels in a row; at most 3 if not given.
        note: a footnote that says where the figures come from.
        quick: mark every panel as a quick run.
    """
    if not panels:
        raise ValueError("panels are empty: give at least one Panel")
    if columns is not None and columns < 1:
        raise ValueError(f"columns is {columns}; it takes a count of at least 1, or None")
    labels = list(dict.fromkeys(curve.label for panel in panels for curve in panel.curves))
    if len(labels) > len(COLOURS):
        raise ValueError(
            f"panels have {len(labels)} labels ({', '.join(labels)}), but only {len(COLOURS)} can "
            "be told apart: draw fewer in one figure"
        )
    if columns is None:
        columns = 2 if len(panels) == 4 else min(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    with print_style():
        width = ONE_COLUMN if columns == 1 else TWO_COLUMNS
        figure = Figure(figsize=(width, rows * _PANEL_HEIGHT))
        grid = figure.add_gridspec(rows, columns)
        looks = {label: _look(number) for number, label in enumerate(labels)}
        for number, panel in enumerate(panels):
            letter = f"({chr(ord('a') + number)}) " if len(panels) > 1 else ""
            draw = _draw_reliability if panel.kind == "reliability" else _draw_curves
            axes = draw(figure, grid[divmod(number, columns)], panel, looks)
            axes.set_title(letter + panel.title)
            if quick:
                _mark_quick(axes)
        _set_below(figure, looks, "\n".join(filter(None, [note, _gaps(panels)])))
    return figure


def _look(number: int) -> dict[str, Any]:
    look = {"color": COLOURS[number], "linestyle": _DASHES[number], "marker": _MARKERS[number]}
    return look | {"markeredgecolor": "white", "markeredgewidth": 0.4}


def _draw_curves(
    figure: Figure, place: SubplotSpec, panel: Panel, looks: dict[str, dict[str, Any]]
) -> Axes:
    axes = figure.add_subplot(place)
    for number, curve in enumerate(panel.curves):
        _draw_curve(axes, curve, looks[curve.label], number / len(panel.curves))
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
    if panel.log_y:
        axes.set_yscale("log", nonpositive="clip")
    if panel.y_limits is not None:
        axes.set_ylim(*panel.y_limits)
    if panel.integer_x:
        places = sorted({float(x) for curve in panel.curves for x in curve.x})
        whole = ticker.MaxNLocator(integer=True)
        axes.xaxis.set_major_locator(ticker.FixedLocator(places) if len(places) < 10 else whole)
    return axes


def _draw_curve(axes: Axes, curve: Curve, look: dict[str, Any], phase: float) -> None:
    x, band = np.asarray(curve.x, dtype=np.float64), mean_and_band(curve.values)
    if not np.isnan(band.low).all():
        axes.fill_between(x, band.low, band.high, color=look["color"], alpha=0.17, linewidth=0)
    # few markers on a long curve, those of different curves at different places
    step = max(1, x.size // _MARKERS_ON_A_CURVE)
    axes.plot(x, band.mean, label=curve.label, markevery=(int(phase * step), step), **look)


def _draw_reliability(
    figure: Figure, place: SubplotSpec, panel: Panel, looks: dict[str, dict[str, Any]]
) -> Axes:
    counted = [curve for curve in panel.curves if curve.counts is not None]
    parts = place.subgridspec(
        2 if counted else 1, 1, height_ratios=[4, 1] if counted else [1], hspace=0.04
    )
    axes = lowest = figure.add_subplot(parts[0])
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.7, zorder=1)
    for curve in panel.curves:
        _draw_curve(axes, curve, looks[curve.label], 0.0)
    axes.set(ylim=(0, 1), ylabel=panel.y_label)
    if counted:
        lowest = figure.add_subplot(parts[1], sharex=axes)
        axes.tick_params(labelbottom=False)
        for curve in counted:
            look = {name: looks[curve.label][name] for name in ("color", "linestyle")}
            mean = np.mean(np.asarray(curve.counts, dtype=np.float64), 0)
            lowest.stairs(mean, _bin_edges(curve.x), linewidth=0.9, **look)
        lowest.set(ylabel="Count")
        lowest.yaxis.set_major_locator(ticker.MaxNLocator(2, integer=True))
        lowest.set_ylim(bottom=0)
    lowest.set(xlim=(0, 1), xlabel=panel.x_label)
    return axes


def _bin_edges(middles: Sequence[float]) -> Array:
    """Edges halfway between the middles of confidence bins, none outside [0, 1]."""
    x = np.asarray(middles, dtype=np.float64)
    if x.size == 1:
        return np.array([0.0, 1.0])
    between = (x[1:] + x[:-1]) / 2
    ends = 2 * x[0] - between[0], 2 * x[-1] - between[-1]
    return np.concatenate([ends[:1], between, ends[1:]]).clip(0, 1)


def _mark_quick(axes: Axes) -> None:
    axes.text(
        0.5,
        0.5,
        "quick run",
        transform=axes.transAxes,
        fontsize=20,
        fontweight="bold",
        color=FAINT,
        rotation=20,
        ha="center",
        va="center",
        zorder=0.5,
    ).set_in_layout(False)


def _gaps(panels: Sequence[Panel]) -> str:
    """A sentence on the curves where some runs have no value, so that no mean misleads."""
    partial = []
    for panel in panels:
        for curve in panel.curves:
            missing = np.isnan(curve.values)
            places = int((missing.any(0) & ~missing.all(0)).sum())
            if places:
                partial.append(f"{panel.title}, {curve.label} ({places} of {len(curve.x)} places)")
    if not partial:
        return ""
    return f"Mean and band are over the runs with a value; some have none: {'; '.join(partial)}."


def _set_below(figure: Figure, looks: dict[str, dict[str, Any]], note: str) -> None:
    """Reserve space below the panels for the legend and the footnote, and fix the layout."""
    width, height = figure.get_size_inches()
    characters = int(width * 72 / (_NOTE_SIZE * 0.43))
    lines = [part for line in note.splitlines() for part in textwrap.wrap(line, characters)]
    legend = _widest_legend(figure, looks)
    legend_height = legend.get_window_extent().height / figure.dpi
    below = legend_height + len(lines) * _NOTE_LINE + (2 + bool(lines)) * _GAP
    total = height + below
    figure.set_size_inches(width, total)
    legend.set_bbox_to_anchor((0.5, (below - _GAP) / total), figure.transFigure)
    if lines:
        text = figure.text(0.06 / width, _GAP / total, "\n".join(lines), va="bottom", color=GREY)
        text.set(fontsize=_NOTE_SIZE, linespacing=1.15, parse_math=False, in_layout=False)
    rest = (0, below / total, 1, height / total)
    figure.set_layout_engine(ConstrainedLayoutEngine(rect=rest))
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def _widest_legend(figure: Figure, looks: dict[str, dict[str, Any]]) -> Legend:
    """A legend with as many labels in a row as the figure is wide."""
    handles = [Line2D([], [], label=label, **look) for label, look in looks.items()]
    for columns in range(len(handles), 0, -1):
        legend = figure.legend(
            handles=handles,
            ncols=columns,
            loc="upper center",
            frameon=False,
            borderpad=0,
            borderaxespad=0,
            handlelength=2.7,
            handletextpad=0.5,
            columnspacing=1.3,
        )
        if legend.get_window_extent().width <= 0.98 * figure.bbox.width or columns == 1:
            break
        legend.remove()
    legend.set_in_layout(False)
    return legend
