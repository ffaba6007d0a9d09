"""The sentences of a report say what its figures say, and change with them."""

import copy
from dataclasses import replace

import pytest
import torch

from contracts.small_runs import CLASSES, NODES, train, write_graph
from graphdrop.calibration.refusal import RareLimit
from graphdrop.report.answered import class_figures, refusal, set_figures
from graphdrop.report.conclusions import conclusions
from graphdrop.report.runs import gather


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two runs and their graph; do not change them."""
    folder = tmp_path_factory.mktemp("runs")
    graph = write_graph(folder / "mine.npz")
    return gather([train(folder / "a", graph), train(folder / "b", graph, "GCN", seed=1)])


def said(run, data, section: str) -> str:
    (text,) = conclusions([run], ["it"], data)[section]
    return text


def test_one_run_is_held_against_the_most_frequent_class(made):
    (run, _), data = made
    most = int(data.y[data.train_mask].bincount().argmax())
    share = float((data.y[data.test_mask] == most).double().mean())
    text = said(run, data, "summary")
    assert f"classifies {100 * run.scores['accuracy']:.1f} % of the {NODES // 4} test" in text
    assert f"of the training nodes would reach {100 * share:.1f} %" in text


def test_a_difference_between_runs_is_held_against_chance(made):
    (run, _), data = made
    right = data.y.clone()
    one_wrong, all_wrong = right.clone(), (right + 1) % CLASSES
    test = data.test_mask.nonzero().flatten()
    one_wrong[test[0]] = (right[test[0]] + 1) % CLASSES
    perfect = replace(run, decided=right, scores={**run.scores, "accuracy": 1.0})
    for other, accuracy, verdict in (
        (one_wrong, 1 - 1 / len(test), "a difference that chance explains"),
        (all_wrong, 0.0, "more than the chance of which"),
    ):
        worse = replace(run, decided=other, scores={**run.scores, "accuracy": accuracy})
        (text,) = conclusions([worse, perfect], ["worse", "perfect"], data)["summary"]
        assert text.startswith("perfect is the most accurate")
        assert verdict in text


def test_neighbours_are_judged_by_homophily_adjusted_for_the_sizes_of_classes(made):
    (run, _), data = made
    rare = copy.copy(data)
    rare.y = torch.zeros(NODES, dtype=torch.long)
    rare.y[:4] = 1  # as rare as fraud: chance alone joins most edges inside the large class
    common = torch.stack([torch.arange(4, NODES - 1), torch.arange(5, NODES)])
    rare.edge_index = torch.cat([common, torch.tensor([[0, 2, 0], [1, 3, 4]])], 1)
    (text, *_) = conclusions([run], ["run"], rare)["graph"]
    assert "the labels of neighbours are a good hint" in text


def test_refusal_is_counted_on_the_test_nodes(made):
    (run, _), data = made
    test = data.test_mask
    kept, right = run.trust.trusted[test], (run.decided == data.y)[test]
    found = refusal(run, data)
    assert found.answered + found.refused == int(test.sum())
    assert found.right == int((right & kept).sum())
    assert found.refused_wrong == int((~right & ~kept).sum())
    half = torch.arange(NODES) % 8 < 4
    text = said(replace(run, trust=run.trust._replace(trusted=half)), data, "selective")
    assert f"it answers {100 * float(half[test].double().mean()):.1f} % of the test nodes" in text
    everything = run.trust._replace(trusted=torch.ones(NODES, dtype=torch.bool))
    text = said(replace(run, trust=everything), data, "selective")
    assert f"it answers all of the {int(test.sum())} test nodes" in text
    limited = run.trust._replace(rare=(RareLimit(1, 0.125, "coverage"),))
    text = said(replace(run, trust=limited), data, "selective")
    assert "the rare class 1 is 0.125 or more" in text  # why fewer are answered than are kept


def test_sets_are_counted_and_judged(made):
    (run, _), data = made
    test, labels = data.test_mask, data.y[data.test_mask]
    found = set_figures(run, data)
    assert found.held == pytest.approx(float(run.sets.members[test, labels].double().mean()))
    assert sum(found.counts) == len(labels)
    classes = sum(size * count for size, count in enumerate(found.counts, 1))
    assert classes / len(labels) == pytest.approx(found.size)
    by_class = class_figures(run, data)
    assert sum(one["nodes"] for one in by_class) == len(labels)
    assert sum(one["held"] for one in by_class) == round(found.held * len(labels))
    none = replace(run.sets, members=torch.arange(CLASSES) == (data.y[:, None] + 1) % CLASSES)
    assert "less often than they should" in said(replace(run, sets=none), data, "sets")
    assert "it has no sets" in said(replace(run, sets=None), data, "sets")


def test_confidence_is_held_against_accuracy_and_the_error_against_chance(made):
    (run, _), data = made
    for answer, share, verdict in (
        ((data.y + 1) % CLASSES, 1.0, "too sure"),
        (data.y, 0.4, "too cautious"),
        (data.y, 1.0, "neither too sure nor too cautious"),
    ):
        rest = (1 - share) / (CLASSES - 1)
        probabilities = torch.full((NODES, CLASSES), rest)
        probabilities[torch.arange(NODES), answer] = share
        prediction = replace(run.prediction, probabilities=probabilities)
        changed = replace(run, prediction=prediction, decided=answer)
        assert verdict in said(changed, data, "calibration")
    high = {"floor": 0.01, "floor_high": run.scores["ece"] - 1e-3, "uncalibrated": run.scores}
    text = said(replace(run, **high), data, "calibration")
    assert "more than chance explains" in text
    assert f"before calibration it was {100 * run.scores['ece']:.1f} %" in text
    low = {**high, "floor_high": run.scores["ece"] + 1e-3}
    assert "no more than chance explains" in said(replace(run, **low), data, "calibration")


def test_layers_that_lose_all_distance_are_called_over_smoothed(made):
    (run, _), data = made
    for values, verdict in (
        ([0.5, 0.01], "which is over-smoothing"),
        ([0.5, 0.4], "stay apart"),
        ([0.4, 0.5], "no sign of over-smoothing"),
    ):
        changed = replace(run, smoothing={"mean average distance": values})
        assert verdict in said(changed, data, "smoothing")
    alone = replace(run, smoothing={"mean average distance": [0.5]})
    assert "only where further layers follow" in said(alone, data, "smoothing")
    unknown = replace(run, smoothing={"mean average distance": [None]})
    assert conclusions([unknown], ["it"], data)["smoothing"] == []


def test_simple_models_that_runs_share_are_listed_once(made):
    one, two = (replace(run, baselines=made[0][0].baselines) for run in made[0])
    (text,) = conclusions([one, two], ["one", "two"], made[1])["baselines"]
    assert "split, by test accuracy: majority class" in text
    reached = [run.scores["accuracy"] for run in (one, two)]
    assert text.endswith(f"one reaches {reached[0]:.3f}, two reaches {reached[1]:.3f}.")


@pytest.mark.parametrize(
    ("around", "verdict"), [(0.8, "help"), (0.705, "make little difference"), (0.6, "do not help")]
)
def test_the_simple_models_say_whether_the_features_of_neighbours_help(made, around, verdict):
    (run, _), data = made
    scores = {"logistic regression": 0.7, "logistic regression, neighbours": around}
    found = {name: {"test": {"accuracy": value}} for name, value in scores.items()}
    said = conclusions([replace(run, baselines=found)], ["it"], data)["graph"][1]
    assert f"of 0.700 on a node's own features and {around:.3f} with" in said
    assert said.endswith(f"the features of neighbours {verdict}.")
