"""Figures for print: curves with bands over runs, reliability diagrams, dots and distributions.

A label has one colour, line style and marker in all panels of a figure, so that it can be
distinguished with colour blindness and in grey.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec

import numpy as np
from matplotlib import style, ticker
from matplotlib.figure import Figure, SubFigure
from numpy.typing import NDArray
from scipy import stats

from graphdrop.io.files import replace_file

ONE_COLUMN, TWO_COLUMNS = 3.35, 6.9
"""Widths of figures in inches."""
INK, GREY = "#222222", "#555555"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The colours of Okabe and Ito, without yellow, which is hard to see on white."""
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
_PANEL_HEIGHT, _GROUP_HEIGHT, _ROW_HEIGHT, _LEGEND = 2.15, 0.45, 1.15, 0.75  # inches
_PRINT: dict[str, Any] = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#ececec",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.15,
    "lines.markersize": 4,
}
Array = NDArray[np.float64]
P = ParamSpec("P")


@contextmanager
def print_style() -> Iterator[None]:
    """Use the print style, independent of the user's matplotlib settings."""
    with style.context(["default", _PRINT]):
        yield


def _in_print_style(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    @wraps(draw)
    def styled(*args: P.args, **options: P.kwargs) -> Figure:
        with print_style():
            return draw(*args, **options)

    return styled


def save_figure(figure: Figure, stem: Path) -> Path:
    """Write ``stem.png`` atomically and return its path; equal figures give equal bytes."""
    path = stem.with_name(f"{stem.name}.png")
    stream = io.BytesIO()
    with print_style():
        figure.savefig(stream, format="png", dpi=300, metadata={"Software": "graphdrop"})
    replace_file(path, stream.getvalue())
    return path


@dataclass(frozen=True)
class Curve:
    """One line of a panel: its values at `x` in every run, NaN where a run has none.

    A reliability panel reads `x` as the middles of the confidence bins and `runs` as accuracies;
    `counts`, if given, are the examples in each bin, in the shape of `runs`.
    """

    label: str
    x: Sequence[float]
    runs: Sequence[Sequence[float]]
    counts: Sequence[Sequence[float]] | None = None


@dataclass(frozen=True)
class Panel:
    """One pair of axes; labels name their units."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    kind: Literal["curve", "reliability"] = "curve"
    y_limits: tuple[float, float] | None = None


def mean_and_band(runs: Sequence[Sequence[float]]) -> tuple[Array, Array, Array]:
    """Return the mean over runs and the ends of its 95 % t interval, at each place.

    Runs without a value at a place are left out there; one value alone has no interval.
    """
    values = np.asarray(runs, dtype=np.float64)
    count = (~np.isnan(values)).sum(0)
    mean = np.nansum(values, 0) / np.where(count > 0, count, np.nan)
    freedom = np.where(count > 1, count - 1, np.nan)
    deviation = np.sqrt(np.nansum((values - mean) ** 2, 0) / freedom)
    half = stats.t.ppf(0.975, freedom) * deviation / np.sqrt(count.clip(1))
    return mean, mean - half, mean + half


@_in_print_style
def draw_figure(
    panels: Sequence[Panel], *, columns: int | None = None, note: str = "", quick: bool = False
) -> Figure:
    """Draw panels side by side, `columns` in a row, with one legend and a footnote below them.

    Args:
        panels: what to draw, with at most seven labels; a label looks the same in all panels.
        columns: panels in a row; at most 3 if not given.
        note: a footnote that says where the figures come from.
        quick: mark every panel as a quick run.

    Example:
        >>> curve = Curve("GCN", [1, 2], [[0.5, 0.6], [0.7, 0.8]])
        >>> draw_figure([Panel("accuracy", "epoch", "share", [curve])]).axes[0].get_xlabel()
        'epoch'
    """
    labels = list(dict.fromkeys(curve.label for panel in panels for curve in panel.curves))
    if not panels or len(labels) > len(COLOURS):
        raise ValueError(
            f"panels is {len(panels)} panels with {len(labels)} labels; it takes at least one "
            f"panel, and at most {len(COLOURS)} labels. Draw fewer in one figure."
        )
    columns = columns or min(len(panels), 3)
    rows = math.ceil(len(panels) / columns)
    width = ONE_COLUMN if columns == 1 else TWO_COLUMNS
    figure = Figure(figsize=(width, rows * _PANEL_HEIGHT + _LEGEND), layout="constrained")
    parts = figure.subfigures(rows, columns, squeeze=False).flat
    looks = {label: _look(i) for i, label in enumerate(labels)}
    for i, (part, panel) in enumerate(zip(parts, panels, strict=False)):
        letter = f"({chr(ord('a') + i)}) " if len(panels) > 1 else ""
        title = f"{letter}{panel.title}{', quick run' if quick else ''}"
        draw = _draw_reliability if panel.kind == "reliability" else _draw_curves
        draw(part, panel, looks, title)
    handles = {
        label: line
        for axes in figure.axes
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(),
        handles,
        loc="outside lower center",
        ncols=4 if columns > 1 else 2,
        frameon=False,
        title="\n".join(textwrap.wrap(note, int(23 * width))),
        title_fontsize=6.5,
    )
    return figure


def _look(number: int) -> dict[str, Any]:
    look = {"color": COLOURS[number], "linestyle": _DASHES[number], "marker": _MARKERS[number]}
    return look | {"markeredgecolor": "white", "markeredgewidth": 0.4}


def _draw_curves(
    part: SubFigure, panel: Panel, looks: Mapping[str, dict[str, Any]], title: str
) -> None:
    axes = part.subplots()
    for i, curve in enumerate(panel.curves):
        mean, low, high = mean_and_band(curve.runs)
        look = looks[curve.label]
        axes.fill_between(curve.x, low, high, color=look["color"], alpha=0.17, linewidth=0)
        # few markers on a long curve, those of different curves at different places
        step = max(1, len(curve.x) // _MARKERS_ON_A_CURVE)
        first = int(i / len(panel.curves) * step)
        axes.plot(curve.x, mean, label=curve.label, markevery=(first, step), **look)
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label, ylim=panel.y_limits, title=title)


def _draw_reliability(
    part: SubFigure, panel: Panel, looks: Mapping[str, dict[str, Any]], title: str
) -> None:
    """Draw accuracy by confidence over the diagonal, and below it the examples of each bin."""
    upper, lower = part.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    upper.plot([0, 1], [0, 1], color=GREY, linewidth=0.7, zorder=1)
    for curve in panel.curves:
        look = looks[curve.label]
        mean, low, high = mean_and_band(curve.runs)
        upper.fill_between(curve.x, low, high, color=look["color"], alpha=0.17, linewidth=0)
        upper.plot(curve.x, mean, label=curve.label, **look)
        if curve.counts is not None:
            edges = np.linspace(0, 1, len(curve.x) + 1)
            outline = {name: look[name] for name in ("color", "linestyle")}
            lower.stairs(np.mean(curve.counts, 0), edges, linewidth=0.9, **outline)
    upper.set(ylim=(0, 1), ylabel=panel.y_label, title=title)
    lower.set(xlim=(0, 1), xlabel=panel.x_label, ylabel="Count")
    lower.set_ylim(bottom=0)
    lower.yaxis.set_major_locator(ticker.MaxNLocator(2, integer=True))


@dataclass(frozen=True)
class Dots:
    """The points of one method: a value and maybe a deviation for every group, NaN for none."""

    label: str
    values: Sequence[float]
    deviations: Sequence[float] | None = None


@_in_print_style
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
        >>> draw_dots(["cora"], [Dots("GCN", [2.5], [0.3])], "ECE (%)").axes[0].get_xlabel()
        'ECE (%)'
    """
    height = 0.95 + _GROUP_HEIGHT * len(groups)
    figure = Figure(figsize=(TWO_COLUMNS, height), layout="constrained")
    axes = figure.add_subplot()
    for i, points in enumerate(dots):
        offset = 0.6 * ((i + 0.5) / len(dots) - 0.5)
        axes.errorbar(
            points.values,
            [row + offset for row in range(len(groups))],
            xerr=None if points.deviations is None else np.nan_to_num(points.deviations),
            fmt=_MARKERS[i],
            color=COLOURS[i],
            elinewidth=0.8,
            label=points.label,
        )
    for (name, values), line in zip((marks or {}).items(), _DASHES, strict=False):
        low, high = (np.arange(len(groups)) + side for side in (-0.42, 0.42))
        axes.vlines(values, low, high, color=GREY, linestyle=line, linewidth=1.1, label=name)
    axes.set_yticks(range(len(groups)), groups)
    axes.set(ylim=(len(groups) - 0.5, -0.5), xlabel=x_label, title="quick run" if quick else "")
    columns = max(1, min(4, 110 // (6 + max(len(points.label) for points in dots))))
    figure.legend(loc="outside lower center", ncols=columns, frameon=False)
    return figure


@_in_print_style
def draw_distributions(
    panels: Mapping[str, tuple[Sequence[float], float]],
    x_label: str,
    *,
    width: float,
    quick: bool = False,
) -> Figure:
    """Draw a dot for every run and a line at a printed figure; dots of one step are stacked.

    Args:
        panels: by title, the values of all runs and what was printed of them elsewhere.
        x_label: what the values are, with their unit.
        width: of a step; steps begin at the printed figure.
        quick: mark the figure as one of quick runs.

    Example:
        >>> panels = {"2 layers": ([80.1, 80.2, 81.0], 80.5)}
        >>> draw_distributions(panels, "accuracy (%)", width=0.5).axes[0].get_ylabel()
        'runs'
    """
    height = 0.4 + _ROW_HEIGHT * len(panels)
    figure = Figure(figsize=(TWO_COLUMNS, height), layout="constrained")
    rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (title, (values, printed)) in zip(rows, panels.items(), strict=True):
        # what is printed has few digits: a value at it must not fall below it by rounding
        steps = np.floor((np.sort(values) - printed) / width + 1e-9)
        heights = np.arange(1, len(steps) + 1) - np.searchsorted(steps, steps)
        axes.plot(printed + (steps + 0.5) * width, heights, "o", color=COLOURS[0], markersize=3.5)
        axes.axvline(printed, color=COLOURS[1], linestyle=_DASHES[1])
        axes.set(title=f"{title}, printed {printed:.2f}{', quick run' if quick else ''}")
        axes.set(ylabel="runs")
        axes.set_ylim(bottom=0.0)
        axes.margins(y=0.25)
        axes.yaxis.set_major_locator(ticker.MaxNLocator(nbins=4, integer=True))
    rows[-1].set_xlabel(x_label)
    return figure
