"""The example of the page runs, and does what the page says in three added lines."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "attach_gat.py"


def test_a_stock_gat_becomes_bayesian_in_three_lines(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE))["main"](["--dataset", "synthetic", "--epochs", "8"])
    printed = capsys.readouterr().out
    scores = re.findall(r"^(before|after) +(0\.\d+) +(0\.\d+)$", printed, re.MULTILINE)
    assert [name for name, _, _ in scores] == ["before", "after"]
    rates = re.findall(r"^(convs\.\d) +(0\.\d+) +(0\.\d+)$", printed, re.MULTILINE)
    assert len(rates) == 2
    assert all(before != after for _, before, after in rates)
    assert EXAMPLE.read_text().count("# added\n") == 3
