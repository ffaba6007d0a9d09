"""Figures show the means, intervals and counts of runs; the same runs give the same bytes."""

import numpy as np
import pytest
from scipy import stats

from experiments.plots import (
    Curve,
    Dots,
    Panel,
    draw_distributions,
    draw_dots,
    draw_figure,
    mean_and_band,
    save_figure,
)

RUNS = [[0.2, 0.4, np.nan], [0.4, 0.8, 0.6], [0.3, 0.6, np.nan]]


def test_a_band_is_students_interval_at_each_place_over_the_runs_with_a_value():
    mean, low, high = mean_and_band(RUNS)
    assert mean == pytest.approx([0.3, 0.6, 0.6])
    expected = stats.ttest_1samp([0.4, 0.8, 0.6], 0.0).confidence_interval(0.95)
    assert (low[1], high[1]) == pytest.approx((expected.low, expected.high))
    assert np.isnan([low[2], high[2]]).all()


def test_a_label_looks_the_same_in_all_panels_and_quick_runs_are_marked():
    first, second = Curve("a", [1, 2, 3], RUNS), Curve("b", [1, 2, 3], RUNS)
    panels = [Panel("one", "x", "y", [first, second]), Panel("two", "x", "y", [second])]
    figure = draw_figure(panels, note="where it is from", quick=True)
    one, two = figure.axes
    assert one.lines[1].get_color() == two.lines[0].get_color() != one.lines[0].get_color()
    assert one.lines[0].get_ydata() == pytest.approx([0.3, 0.6, 0.6])
    assert two.get_title(loc="left") == "(b) two, quick run"
    assert figure.legends[0].get_title().get_text() == "where it is from"
    with pytest.raises(ValueError, match="panels is 0 panels"):
        draw_figure([])


def test_a_reliability_panel_has_the_diagonal_and_the_examples_of_each_bin():
    curve = Curve("a", [0.25, 0.75], [[0.2, 0.8], [0.3, 0.7]], [[10, 30], [20, 40]])
    figure = draw_figure([Panel("r", "confidence", "accuracy", [curve], kind="reliability")])
    upper, lower = figure.axes
    assert upper.lines[1].get_ydata() == pytest.approx([0.25, 0.75])
    assert lower.patches[0].get_data().values.tolist() == [15, 35]


def test_dots_stand_at_their_values_and_runs_of_one_step_are_stacked():
    dots = [Dots("a", [1.0, np.nan], [0.1, np.nan]), Dots("b", [2.0, 3.0])]
    axes = draw_dots(["cora", "pubmed"], dots, "size", marks={"record": [1.5, np.nan]}).axes[0]
    assert axes.lines[0].get_xdata()[0] == 1.0
    assert [label.get_text() for label in axes.get_yticklabels()] == ["cora", "pubmed"]
    (axes,) = draw_distributions({"a": ([80.5, 80.1, 80.2], 80.5)}, "x", width=0.5).axes
    assert sorted(map(tuple, axes.lines[0].get_xydata().round(6).tolist())) == [
        (80.25, 1.0),
        (80.25, 2.0),
        (80.75, 1.0),
    ]


def test_the_same_figure_gives_the_same_bytes(tmp_path):
    panels = [Panel("one", "x", "y", [Curve("a", [1, 2, 3], RUNS)])]
    files = [save_figure(draw_figure(panels), tmp_path / name) for name in ("a", "b")]
    assert files[0].read_bytes() == files[1].read_bytes()
