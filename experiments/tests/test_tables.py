"""Tables say what the runs say, in every form."""

import math

import pytest
from scipy import stats

from experiments.tables import Table, beside_paper, summarise

VALUES = [80.0, 82.0, 81.5, 83.1]


def test_the_interval_is_students():
    ours = summarise(VALUES)
    expected = stats.ttest_1samp(VALUES, 0.0).confidence_interval(0.95)
    assert (ours.low, ours.high) == pytest.approx((expected.low, expected.high))
    assert ours.mean == pytest.approx(81.65)
    assert ours.deviation == pytest.approx(stats.tstd(VALUES))
    assert ours.count == 4


def test_a_single_run_has_no_deviation_and_no_interval():
    ours = summarise([80.0])
    assert ours.mean == 80.0
    assert all(math.isnan(value) for value in (ours.deviation, ours.low, ours.high))
    assert beside_paper([80.0]) == ("80.00", "1 seed")


def test_a_cell_has_ours_the_papers_and_the_difference():
    lines = beside_paper(VALUES, [82.2, 0.92])
    assert lines[0] == "81.65 ± 1.29"
    assert lines[1] == "95 % CI [79.60, 83.70], 4 seeds"
    assert lines[2] == "paper 82.20 ± 0.92 (\N{MINUS SIGN}0.55)"
    assert beside_paper(VALUES, [81.0])[2] == "paper 81.00 (+0.65)"


def test_a_cell_without_runs_still_has_the_papers_figure():
    assert beside_paper([], [82.2, 0.92]) == ("no run yet", "paper 82.20 ± 0.92")


@pytest.fixture
def table() -> Table:
    rows = [("a_b|c", [("1 ± 2", "[0, 5]"), ("50 % & more",)]), ("plain", [("x",), ("y",)])]
    return Table("A_title", ["first", "cora_ml"], rows, "A note_.")


def test_markdown_has_every_cell_and_escapes_what_it_would_read(table):
    lines = table.to_markdown().splitlines()
    assert lines[0] == r"**A\_title**"
    assert lines[2:6] == [
        r"|  | first | cora\_ml |",
        "| --- | ---: | ---: |",
        r"| a\_b\|c | 1 ± 2<br>[0, 5] | 50 % & more |",
        "| plain | x | y |",
    ]
    assert lines[-1] == r"A note\_."
