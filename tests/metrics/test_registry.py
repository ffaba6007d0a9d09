"""The scores of a prediction are the metrics of the registry, by the settings."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from experiments.rendering import metric_columns
from graphdrop import Config, Predictive, metrics
from graphdrop.cli.runs import show_scores
from graphdrop.metrics import registry
from graphdrop.report.html import _metrics
from graphdrop.train import Result

PROBABILITIES = torch.tensor([[0.5, 0.4, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
VOTES = torch.tensor([[1, 2, 0], [0, 3, 0], [0, 0, 3]])
PREDICTION = Predictive(PROBABILITIES, VOTES, torch.zeros(3), torch.zeros(3, 3), 3)
LABELS = torch.tensor([1, 1, 0])


@pytest.mark.parametrize(("decision", "accuracy"), [("vote", 2 / 3), ("mean", 1 / 3)])
def test_the_decision_is_the_vote_or_the_mean(decision, accuracy):
    config = Config(predict={"decision": decision})
    prediction = replace(PREDICTION, decision=decision)
    scores = registry.score(prediction, LABELS, config)
    assert scores.accuracy == accuracy
    assert (scores.accuracy_vote, scores.accuracy_mean) == (2 / 3, 1 / 3)
    chosen = prediction.predicted
    assert chosen.tolist() == ([1, 1, 2] if decision == "vote" else [0, 1, 2])
    expected = metrics.pavpu(PROBABILITIES, LABELS, 0.5, predictions=chosen).pavpu
    assert scores.pavpu == expected.item()


def test_one_entry_puts_a_metric_into_scores_tables_and_report(monkeypatch, capsys):
    def wrong(prediction, labels, config):
        return float((prediction.predicted != labels).double().mean())

    entry = registry.ScoreMetric("error", "error rate", wrong, percent=True)
    monkeypatch.setitem(registry.METRICS, "classes", [*registry.METRICS["classes"], entry])
    config = Config(predict={"decision": "mean"})
    scores = registry.score(replace(PREDICTION, decision="mean"), LABELS, config)
    assert scores.error == scores["error"] == pytest.approx(2 / 3)
    assert "error rate 0.6667" in repr(Result(scores, scores, [], 1, 1, 0.0))
    show_scores(config, {"test": scores}, [], {})
    assert re.search(r"error rate.*0\.6667", capsys.readouterr().out, re.DOTALL)
    assert _metrics([SimpleNamespace(scores=scores)])[-1]["title"] == "error rate"
    assert list(metric_columns("error")) == ["error rate (%)"]


def test_a_score_that_does_not_exist_is_an_error_with_those_that_do():
    scores = registry.score(PREDICTION, LABELS, Config())
    with pytest.raises(AttributeError, match="'auc' is not a score; these are: accuracy, "):
        scores.auc  # noqa: B018
