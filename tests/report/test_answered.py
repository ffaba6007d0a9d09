"""What the page shows of answers: mistakes, curves, and the nodes to look at first."""

import copy
from dataclasses import replace

import pytest
import torch
from sklearn.metrics import confusion_matrix

from contracts.small_runs import CLASSES, NODES, train, write_graph
from graphdrop.inference.origin import Origin
from graphdrop.report import answered
from graphdrop.report.answered import confusion, look_first, mistakes, ranking_views
from graphdrop.report.runs import gather


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run and its graph; do not change them."""
    folder = tmp_path_factory.mktemp("runs")
    (run,), data = gather([train(folder / "a", write_graph(folder / "mine.npz"))])
    return run, data


def test_the_confusion_matrix_counts_test_nodes_and_many_classes_have_a_list(made, monkeypatch):
    run, data = made
    labels, predicted = data.y[data.test_mask], run.decided[data.test_mask]
    expected = confusion_matrix(labels, predicted, labels=range(CLASSES))
    assert confusion(run, data) == expected.tolist()
    found = mistakes(run, data)
    assert sum(one["nodes"] for one in found) == int((labels != predicted).sum())
    assert all(expected[one["label"], one["predicted"]] == one["nodes"] for one in found)
    monkeypatch.setattr(answered, "MOST_CLASSES", CLASSES - 1)
    assert confusion(run, data) is None


def test_rare_classes_and_the_smaller_of_two_have_curves_that_fit_their_areas(made):
    run, data = made
    assert ranking_views(run, data) == []  # three classes, none of them rare
    rare = replace(run.prediction, origin=Origin(class_counts=(30, 30, 3)))
    (view,) = ranking_views(replace(run, prediction=rare), data)
    two = replace(run.prediction, probabilities=run.prediction.probabilities[:, :2])
    halves = copy.copy(data)
    halves.y = (torch.arange(NODES) % 3 == 0).long()
    (half,) = ranking_views(replace(run, prediction=two), halves)
    assert (view["label"], half["label"]) == (2, 1)
    for one in (view, half):
        steps = torch.tensor(one["false_positives"]).diff()
        middles = torch.tensor(one["true_positives"]).unfold(0, 2, 1).mean(1)
        assert float((steps * middles).sum()) == pytest.approx(one["auroc"], abs=1e-6)
        gained = torch.tensor([0.0, *one["recall"]]).diff()
        area = float((gained * torch.tensor(one["precision"])).sum())
        assert area == pytest.approx(one["average_precision"], abs=1e-6)


def test_nodes_to_look_at_first_are_trusted_mistakes_rare_ones_and_uncertain_ones(made):
    run, data = made
    unknown = copy.copy(data)
    unknown.y = torch.where(torch.arange(NODES) % 4 == 3, -1, data.y)  # those outside of the split
    likely = torch.full((NODES, CLASSES), 0.05)
    likely[torch.arange(NODES), data.y] = 0.9
    likely[0] = torch.eye(CLASSES)[(data.y[0] + 1) % CLASSES]  # wrong, and sure of it
    likely[3] = torch.tensor([0.34, 0.33, 0.33])  # no label, and uncertain
    likely[7] = torch.tensor([0.6, 0.0, 0.4])  # no label, and perhaps of a rare class
    prediction = replace(
        run.prediction, probabilities=likely, origin=Origin(class_counts=(30, 30, 3))
    )
    trust = run.trust._replace(trusted=likely.amax(1) > 0.8)
    changed = replace(run, prediction=prediction, decided=likely.argmax(1), trust=trust)
    found = look_first(changed, unknown)
    why = {one["node"]: one["why"] for one in found}
    assert len(why) == len(found)
    assert found[0]["node"] == "0"
    assert why["0"] == f"Trusted, but its training label is {int(data.y[0])} (probability 0.000)."
    assert why["3"].startswith("Uncertain: the next class is ")
    assert all(int(node) % 4 == 3 for node in why if node != "0")
    rare = [one["why"] for one in found if "rare class 2" in one["why"]]
    assert all(text.startswith("No label; likely of the rare class 2") for text in rare)
    assert rare
