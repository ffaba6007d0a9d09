"""Figures say what the runs say, are read in colour and in grey, and come out the same twice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import FillBetweenPolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import StepPatch
from scipy import stats

from experiments.plots.figures import Curve, Panel, draw_figure, mean_and_band, save_figure
from experiments.plots.style import COLOURS

X = [0.1, 0.3, 0.5, 0.7, 0.9]
NAN = math.nan


def a_curve(label: str = "GCN-DO", runs: int = 4, x: Sequence[float] = X) -> Curve:
    generator = np.random.default_rng(len(label))
    return Curve(label, x, generator.uniform(0.2, 0.9, (runs, len(x))).tolist())


def a_panel(*curves: Curve, title: str = "Cora") -> Panel:
    return Panel(title, "Coverage (fraction)", "Error rate", curves or [a_curve()])


def line_of(axes: Axes, label: str) -> Line2D:
    return next(line for line in axes.get_lines() if line.get_label() == label)


def bands_of(axes: Axes) -> list[FillBetweenPolyCollection]:
    return [part for part in axes.collections if isinstance(part, FillBetweenPolyCollection)]


def words_of(figure: Figure) -> str:
    return " ".join(word for text in figure.texts for word in text.get_text().split())


def test_the_band_is_the_t_interval_of_the_mean() -> None:
    values = np.random.default_rng(0).normal(size=(7, 3))
    band = mean_and_band(values)
    low, high = stats.t.interval(0.95, 6, loc=values.mean(0), scale=stats.sem(values, axis=0))
    np.testing.assert_allclose(band.mean, values.mean(0))
    np.testing.assert_allclose(band.low, low)
    np.testing.assert_allclose(band.high, high)


def test_a_place_counts_only_the_runs_that_have_a_value_there() -> None:
    values = np.array([[1.0, 1.0, NAN], [3.0, NAN, NAN], [5.0, NAN, NAN]])
    band = mean_and_band(values)
    np.testing.assert_array_equal(band.mean, [3.0, 1.0, NAN])
    np.testing.assert_array_equal(np.isnan(band.low), [False, True, True])
    alone = mean_and_band(values[:, :1])
    assert band.high[0] == alone.high[0]


def test_the_line_and_the_band_on_the_page_are_the_mean_and_its_interval() -> None:
    curve = a_curve()
    (axes,) = draw_figure([a_panel(curve)]).axes
    band = mean_and_band(curve.values)
    np.testing.assert_array_equal(line_of(axes, "GCN-DO").get_ydata(), band.mean)
    (shown,) = bands_of(axes)
    corners = shown.get_paths()[0].vertices[:, 1]
    assert (corners.min(), corners.max()) == (band.low.min(), band.high.max())


def test_one_run_has_no_band() -> None:
    (axes,) = draw_figure([a_panel(a_curve(runs=1))]).axes
    assert bands_of(axes) == []


def test_the_footnote_names_curves_that_are_means_of_fewer_runs() -> None:
    partial = Curve("GCN-BBGDC", X, [[NAN, 0.2, 0.3, 0.4, 0.5], [NAN, NAN, 0.3, 0.4, 0.6]])
    words = words_of(draw_figure([a_panel(a_curve(), partial)], note="seeds 0 to 9"))
    assert "seeds 0 to 9" in words
    assert "GCN-BBGDC (1 of 5 places)" in words
    assert "GCN-DO" not in words


def test_a_label_looks_the_same_in_every_panel_and_unlike_any_other() -> None:
    names = [f"method {number}" for number in range(len(COLOURS))]
    curves = [a_curve(name) for name in names]
    first, second = draw_figure([a_panel(*curves), a_panel(*reversed(curves))]).axes

    def look(axes: Axes, name: str) -> tuple[object, ...]:
        line = line_of(axes, name)
        dashes = str(line._dash_pattern)  # type: ignore[attr-defined]  # styles are all "--" else
        return line.get_color(), dashes, line.get_marker()

    looks = [look(first, name) for name in names]
    assert looks == [look(second, name) for name in names]
    for part in zip(*looks, strict=True):  # colours, dashes and markers each tell all apart
        assert len(set(part)) == len(names)


@pytest.mark.parametrize("count", [1, 3])
def test_nothing_below_the_panels_covers_them_or_leaves_the_page(count: int) -> None:
    curves = [a_curve(f"GCN with a long name, layer {number}") for number in range(6)]
    note = "recipe paper, data sha256 0123456789abcdef, seeds 0 to 9, made by a command; " * 3
    figure = draw_figure([a_panel(*curves)] * count, note=note)
    (legend,), (footnote,) = figure.legends, figure.texts
    below = [legend.get_window_extent(), footnote.get_window_extent()]
    panels = [axes.get_tightbbox() for axes in figure.axes]
    assert all(panel is not None and panel.y0 >= below[0].y1 for panel in panels)
    assert below[0].y0 >= below[1].y1
    for box in below:
        assert 0 <= box.x0 < box.x1 <= figure.bbox.width
        assert box.y0 >= 0


def test_every_panel_of_a_quick_run_is_marked_and_no_other() -> None:
    def marked(quick: bool) -> list[bool]:
        axes = draw_figure([a_panel(), a_panel()], quick=quick).axes
        return ["quick run" in [text.get_text() for text in one.texts] for one in axes]

    assert marked(True) == [True, True]
    assert marked(False) == [False, False]


def test_depths_are_ticked_as_whole_numbers() -> None:
    depths = [2, 4, 6, 8, 12, 16]
    panel = Panel("Cora", "Layers", "Accuracy (%)", [a_curve(x=depths)], integer_x=True)
    (axes,) = draw_figure([panel]).axes
    assert axes.get_xticks().tolist() == depths


def test_a_logarithmic_panel_has_a_logarithmic_axis() -> None:
    panel = Panel("Course of the KL", "Epoch", "KL (nats)", [a_curve()], log_y=True)
    (axes,) = draw_figure([panel]).axes
    assert axes.get_yscale() == "log"


def test_a_reliability_panel_has_the_diagonal_the_accuracies_and_the_mean_counts() -> None:
    accuracies = [[NAN, 0.3, 0.4, 0.8, 1.0], [0.0, 0.2, 0.6, 0.7, 0.9]]
    counts = [[0, 4, 10, 20, 60], [2, 6, 12, 30, 50]]
    curve = Curve("GCN-DO", X, accuracies, counts)
    panel = Panel("Reliability", "Confidence", "Accuracy", [curve], kind="reliability")
    axes, histogram = draw_figure([panel]).axes
    diagonal = axes.get_lines()[0]
    assert [list(diagonal.get_xdata()), list(diagonal.get_ydata())] == [[0, 1], [0, 1]]
    shown = line_of(axes, "GCN-DO").get_ydata()
    np.testing.assert_allclose(shown, [0.0, 0.25, 0.5, 0.75, 0.95])
    (stairs,) = [patch for patch in histogram.patches if isinstance(patch, StepPatch)]
    np.testing.assert_array_equal(stairs.get_data().values, np.mean(counts, 0))
    np.testing.assert_allclose(stairs.get_data().edges, [0, 0.2, 0.4, 0.6, 0.8, 1.0], atol=1e-12)


def test_a_reliability_panel_without_counts_has_no_histogram() -> None:
    panel = Panel("Reliability", "Confidence", "Accuracy", [a_curve()], kind="reliability")
    assert len(draw_figure([panel]).axes) == 1


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    figures = [draw_figure([a_panel(), a_panel()], note="a note", quick=True) for _ in range(2)]
    files = [save_figure(figures[0], tmp_path / name) for name in ("one", "again")]
    files.append(save_figure(figures[1], tmp_path / "deeper" / "fig.v2"))
    assert files[-1].name == "fig.v2.png"
    assert len({path.read_bytes() for path in files}) == 1
    assert files[0].read_bytes().startswith(b"\x89PNG")


def test_the_users_own_matplotlib_settings_change_nothing(tmp_path: Path) -> None:
    plain = save_figure(draw_figure([a_panel()]), tmp_path / "plain")
    with mpl.rc_context({"font.size": 30, "lines.linewidth": 9, "svg.hashsalt": "theirs"}):
        other = save_figure(draw_figure([a_panel()]), tmp_path / "other")
    assert plain.read_bytes() == other.read_bytes()


def bad_panel(**changes: object) -> Panel:
    given = {"title": "t", "x_label": "x", "y_label": "y", "curves": [a_curve()]} | changes
    return Panel(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Curve(" ", [1], [[1]]), "label is empty"),
        (lambda: Curve("a", [], [[]]), "x of 'a'"),
        (lambda: Curve("a", [2, 1], [[1, 1]]), "x of 'a' takes .* increase"),
        (lambda: Curve("a", [1, NAN], [[1, 1]]), "x of 'a' takes .* finite"),
        (lambda: Curve("a", [1], []), "runs of 'a' are empty"),
        (lambda: Curve("a", [1, 2], [[1, 2], [1]]), r"runs\[1\] of 'a' has 1 values for 2"),
        (lambda: Curve("a", [1], [[math.inf]]), r"runs\[0\] of 'a' holds an infinite"),
        (lambda: Curve("a", [1], [[NAN]]), "runs of 'a' are all NaN"),
        (lambda: Curve("a", [1], [[1]], [[-1]]), "counts of 'a'"),
        (lambda: Curve("a", [1], [[1]], [[1], [1]]), "counts of 'a' .* 1 runs; got 2"),
        (lambda: bad_panel(kind="pie"), "kind is 'pie'"),
        (lambda: bad_panel(curves=[]), "curves of panel 't' are empty"),
        (lambda: bad_panel(curves=[a_curve(), a_curve()]), "share the label 'GCN-DO'"),
        (
            lambda: bad_panel(kind="reliability", curves=[Curve("a", [0.5], [[80]])]),
            r"'a' of panel 't' .*\[0, 1\]",
        ),
        (lambda: bad_panel(curves=[Curve("a", [1], [[1]], [[1]])]), "'a' .* has counts"),
        (lambda: bad_panel(integer_x=True), "x that is not whole"),
        (lambda: bad_panel(log_y=True, curves=[Curve("a", [1], [[0]])]), "log_y takes positive"),
        (lambda: draw_figure([]), "panels are empty"),
        (lambda: draw_figure([a_panel()], columns=0), "columns is 0"),
        (
            lambda: draw_figure([a_panel(*[a_curve(f"m{i}") for i in range(8)])]),
            "8 labels .*m0, .*m7",
        ),
    ],
)
def test_bad_input_is_named(make: object, words: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=words):
        make()
