"""Few calibration nodes: what the committed draws show, and that they are the code's."""

import json
from pathlib import Path

import pytest
import torch

from experiments.few_nodes import COUNTS, KINDS, line, table

ROOT = Path(__file__).parents[2]
PATH = ROOT / "results" / "auto" / "few-nodes.jsonl"


@pytest.fixture(scope="module")
def lines():
    return [json.loads(one) for one in PATH.read_text().splitlines()]


def changes(lines, kind, name):
    """The changes of the test NLL, ``[draws, numbers of nodes]``."""
    found = [one["change"][name] for one in lines if one["kind"] == kind]
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.parametrize("name", ["temperature", "no spread", "entropy-temperature"])
def test_the_default_and_what_it_shrinks_to_cost_little_at_any_number_of_nodes(lines, name):
    found = changes(lines, "networks", name)
    assert len(found) >= 200
    assert float(found.mean(0).max()) <= 0.02


@pytest.mark.parametrize(("kind", "name"), [("labels", "labels"), ("numbers", "variance")])
def test_labels_and_numbers_that_are_right_lose_little(lines, kind, name):
    found = changes(lines, kind, name)
    assert len(found) >= 200
    assert float(found.mean(0).max()) <= 0.02


def test_the_pages_show_the_committed_draws(lines):
    shown = table(lines)
    assert (PATH.with_suffix(".md")).read_text() == shown
    rows = [row for row in shown.splitlines() if row.startswith("| networks | ")]
    page = (ROOT / "docs" / "sets.md").read_text()
    for row in rows:
        cells = row.split(" | ")[1:]
        assert " | ".join(cells) in page


@pytest.mark.parametrize("kind", KINDS[2:4])
def test_a_draw_is_what_was_committed(lines, kind):
    known = next(one for one in lines if one["kind"] == kind and one["draw"] == 0)
    again = line(kind, 0)
    assert len(again["none"]) == len(COUNTS)
    for name, values in known["change"].items():
        assert again["change"][name] == pytest.approx(values, abs=2e-4)
