"""The tables of the page about reliability are made from the counts in `results/torture`."""

from torture.page import MARKS, PAGE, renew


def test_the_tables_of_the_page_are_those_of_the_counts():
    said = PAGE.read_text("utf-8")
    assert {found[2] for found in MARKS.finditer(said)} == {"fuzz", "kills"}
    assert renew(said) == said, "PYTHONPATH=tests python -m torture.page"
