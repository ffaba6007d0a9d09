"""A prediction says in short what it is, and where it is the least certain."""

from dataclasses import replace

import pytest
import torch

from graphdrop.data.names import Names
from graphdrop.inference import Predictive
from graphdrop.inference.origin import Origin

PROBABILITIES = torch.tensor([[0.5, 0.4, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
VOTES = torch.tensor([[1, 2, 0], [0, 3, 0], [0, 0, 3]])
PREDICTION = Predictive(
    PROBABILITIES, VOTES, torch.tensor([0.9, 0.1, 0.5]), torch.zeros(3, 3), 3, decision="vote"
)


def test_in_one_line_it_says_how_large_and_how_certain_it_is() -> None:
    assert repr(PREDICTION) == (
        "Predictive(3 nodes, 3 classes, samples=3, largest standard error 0.000, not calibrated, "
        "mean confidence 0.567, mean entropy 0.890 nats)"
    )


def test_a_notebook_shows_the_least_certain_nodes_first() -> None:
    shown = PREDICTION._repr_html_()
    places = [
        shown.index(f"<tr><td>{node}</td><td>{chosen}</td>")
        for node, chosen in ((2, 2), (0, 1), (1, 1))
    ]
    assert places == sorted(places)
    assert "<td>0.400</td><td>1.089</td>" in shown


def test_the_least_certain_nodes_come_first() -> None:
    assert PREDICTION.most_uncertain(2).tolist() == [2, 0]
    assert PREDICTION.most_uncertain(by="expected_entropy").tolist() == [0, 2, 1]
    with pytest.raises(ValueError, match="k is -1; it takes a number of nodes"):
        PREDICTION.most_uncertain(-1)


def test_a_table_has_a_row_for_every_node() -> None:
    pytest.importorskip("pandas")
    table = PREDICTION.to_pandas()
    assert table["predicted"].tolist() == [1, 1, 2]
    assert table["probability_1"].tolist() == pytest.approx([0.4, 0.8, 0.3])
    assert table["entropy"].tolist() == pytest.approx(PREDICTION.entropy.tolist())
    parts = table["expected_entropy"] + table["mutual_information"]
    assert parts.tolist() == pytest.approx(table["entropy"].tolist())


def test_nodes_and_classes_are_called_by_their_names() -> None:
    pytest.importorskip("pandas")
    names = Names(ids=("ann", "<b>", "cleo", "dan"), classes=("x", "y", "z"))
    rows = torch.tensor([3, 1, 0])
    named = replace(PREDICTION, origin=Origin(rows=rows, names=names))
    table = named.to_pandas()
    assert table.index.tolist() == ["dan", "<b>", "ann"]
    assert table["predicted"].tolist() == ["y", "y", "z"]
    assert table.loc["<b>", "probability_y"] == pytest.approx(0.8)
    assert "<td>&lt;b&gt;</td><td>y</td>" in named._repr_html_()


def test_a_table_of_all_nodes_has_the_order_of_the_rows_they_came_from() -> None:
    pytest.importorskip("pandas")
    names = Names(ids=("ann", "bob", "cleo"), rows=torch.tensor([2, 0, 1]))
    table = replace(PREDICTION, origin=Origin(names=names)).to_pandas()
    assert table.index.tolist() == ["bob", "cleo", "ann"]
    assert table["probability_1"].tolist() == pytest.approx([0.8, 0.3, 0.4])
    assert PREDICTION.probabilities[names.order, 1].tolist() == pytest.approx([0.8, 0.3, 0.4])
