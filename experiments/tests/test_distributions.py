"""Every run is one dot, and dots on the right of the printed figure are at or above it."""

import pytest

from experiments.plots.distributions import Distribution, draw_distributions


def dots(values: list[float], printed: float | None = None) -> list[tuple[float, float]]:
    panels = {"a": Distribution(values, printed)}
    line = draw_distributions(panels, "x", width=0.5).axes[0].lines[0]
    return [*zip(*line.get_data(), strict=True)]


def test_values_of_one_step_are_stacked():
    assert dots([1.6, 1.1, 1.2, 1.4]) == [(1.25, 1), (1.25, 2), (1.25, 3), (1.75, 1)]


def test_dots_on_the_right_of_the_printed_figure_are_those_at_or_above_it():
    places = [place for place, _ in dots([85.1, 85.42, 85.43, 85.5], printed=85.43)]
    assert [place > 85.43 for place in places] == [False, False, True, True]


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match=r"has 1 panels and a width of 0; it takes at least one"):
        draw_distributions({"a": Distribution([1.0])}, "x", width=0)
