"""A run predicts with the masks its settings name, and is scored as the measures define."""

import copy
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from experiments.rendering import metric_columns
from graphdrop import metrics
from graphdrop.cli.runs import show_scores
from graphdrop.inference import Predictive, predict
from graphdrop.metrics import registry
from graphdrop.nn.defaults import PredictionDefaults
from graphdrop.nn.methods import Blueprint
from graphdrop.report.html import _metrics
from graphdrop.train import Result


@pytest.fixture(scope="module")
def trained(tiny, settings_of):
    """A network with rates that differ, which sampling must notice."""
    return Blueprint(settings_of().model, 30, 3, tiny.graph.num_edges).build(seed=1)


def predicted(model, data, config, **options):
    """A prediction of the model as the settings say."""
    model = copy.deepcopy(model)
    model.defaults = PredictionDefaults.of(config)
    return predict(model, data, **options)


def with_masks(settings_of, masks: str, **changes):
    return settings_of(predict={"masks": masks, "samples": 3, **changes})


@pytest.mark.parametrize(
    ("masks", "samples", "directly"),
    [
        ("relaxed", 3, {"temperature": 0.67}),
        ("hard", 3, {"masks": "hard"}),
        ("expected", 0, {}),
    ],
)
def test_masks_are_drawn_as_the_settings_say(tiny, trained, settings_of, masks, samples, directly):
    found = predicted(trained, tiny.data, with_masks(settings_of, masks))
    direct = predict(trained, tiny.data, samples, seed=0, **directly)
    assert torch.equal(found.probabilities, direct.probabilities)
    assert torch.equal(found.votes, direct.votes)


def test_without_masks_every_connection_is_kept(tiny, trained, settings_of):
    found = predicted(trained, tiny.data, with_masks(settings_of, "off"))
    plain = Blueprint(
        settings_of("GCN", model={"method": "GCN", "layers": 2, "hidden": 8, "norm": "row"}).model,
        30,
        3,
        0,
    ).build()
    state = {n: t for n, t in trained.state_dict().items() if ".sampler." not in n}
    state |= {f"layers.{i}.bias": state[f"layers.{i}.bias"].sum(0, keepdim=True) for i in (0, 1)}
    plain.load_state_dict(state)
    direct = predict(plain, tiny.data, 0)
    torch.testing.assert_close(found.probabilities, direct.probabilities)
    assert found.samples == 1
    assert all(layer.sampler is not None for layer in trained.layers)


def test_the_four_ways_differ(tiny, trained, settings_of):
    found = [
        predicted(trained, tiny.data, with_masks(settings_of, masks)).probabilities
        for masks in ("relaxed", "hard", "expected", "off")
    ]
    for number, one in enumerate(found):
        assert not any(torch.allclose(one, other, atol=1e-4) for other in found[:number])


def test_dropout_beside_masks_can_be_left_out_of_samples(tiny, settings_of):
    both = settings_of(model={"dropout": 0.5}, predict={"samples": 3, "dropout": False})
    network = Blueprint(both.model, 30, 3, tiny.graph.num_edges).build(seed=1)
    found = predicted(network, tiny.data, both)
    assert all(layer.dropout is not None for layer in network.layers)
    for layer in network.layers:
        layer.dropout = None
    direct = predict(network, tiny.data, 3, seed=0, temperature=0.67)
    assert torch.equal(found.probabilities, direct.probabilities)


def test_dropout_alone_is_what_samples_draw(tiny, settings_of):
    alone = settings_of(
        "GCN-DO",
        data={"features": "stored"},
        predict={"masks": "hard", "samples": 3, "dropout": False},
    )
    network = Blueprint(alone.model, 30, 3, 0).build(seed=1)
    found = predicted(network, tiny.data, alone)
    assert torch.equal(found.probabilities, predict(network, tiny.data, 3, 0).probabilities)


def test_rows_and_samples_can_be_chosen(tiny, trained, settings_of):
    rows = torch.tensor([7, 3])
    found = predicted(trained, tiny.data, with_masks(settings_of, "hard"), rows=rows, samples=5)
    direct = predict(trained, tiny.data, 5, seed=0, masks="hard")
    assert found.samples == 5
    torch.testing.assert_close(found.probabilities, direct.probabilities[rows])


PROBABILITIES = torch.tensor([[0.5, 0.4, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
VOTES = torch.tensor([[1, 2, 0], [0, 3, 0], [0, 0, 3]])
PREDICTION = Predictive(PROBABILITIES, VOTES, torch.zeros(3), torch.zeros(3, 3), 3)
LABELS = torch.tensor([1, 1, 0])


@pytest.mark.parametrize(("decision", "accuracy"), [("vote", 2 / 3), ("mean", 1 / 3)])
def test_the_decision_is_the_vote_or_the_mean(settings_of, decision, accuracy):
    config = with_masks(settings_of, "hard", decision=decision)
    prediction = replace(PREDICTION, decision=decision)
    scores = registry.score(prediction, LABELS, config)
    assert scores.accuracy == accuracy
    assert (scores.accuracy_vote, scores.accuracy_mean) == (2 / 3, 1 / 3)
    chosen = prediction.predicted
    assert chosen.tolist() == ([1, 1, 2] if decision == "vote" else [0, 1, 2])
    expected = metrics.pavpu(PROBABILITIES, LABELS, 0.5, predictions=chosen).pavpu
    assert scores.pavpu == expected.item()


def test_the_scores_are_the_measures(settings_of):
    config = with_masks(settings_of, "hard", decision="mean")
    scores = registry.score(PREDICTION, LABELS, config)
    assert scores.nll == pytest.approx(-torch.tensor([0.4, 0.8, 0.3]).log().mean().item())
    assert scores.ece == metrics.calibration_error(PROBABILITIES, LABELS).item()
    assert scores.pavpu == metrics.pavpu(PROBABILITIES, LABELS, 0.5).pavpu.item()


def test_one_entry_puts_a_metric_into_scores_tables_and_report(settings_of, monkeypatch, capsys):
    def wrong(prediction, labels, config):
        return float((prediction.predicted != labels).double().mean())

    entry = registry.ScoreMetric("error", "error rate", wrong, percent=True)
    monkeypatch.setitem(registry.METRICS, "classes", [*registry.METRICS["classes"], entry])
    config = with_masks(settings_of, "hard", decision="mean")
    scores = registry.score(replace(PREDICTION, decision="mean"), LABELS, config)
    assert scores.error == scores["error"] == pytest.approx(2 / 3)
    assert "error rate 0.6667" in repr(Result(scores, scores, [], 1, 1, 0.0))
    show_scores(config, {"test": scores}, [], {})
    assert re.search(r"error rate.*0\.6667", capsys.readouterr().out, re.DOTALL)
    assert _metrics([SimpleNamespace(scores=scores)])[-1]["title"] == "error rate"
    assert list(metric_columns("error")) == ["error rate (%)"]


def test_a_score_that_does_not_exist_is_an_error_with_those_that_do(settings_of):
    scores = registry.score(PREDICTION, LABELS, with_masks(settings_of, "hard"))
    with pytest.raises(AttributeError, match="'auc' is not a score; these are: accuracy, "):
        scores.auc  # noqa: B018


@pytest.mark.parametrize(
    ("method", "rates"),
    [("GCN", [None, None]), ("GCN-DO", [0.5, 0.5]), ("GCN-DE", [0.5, 0.5])],
)
def test_drop_rates_are_those_of_what_drops(settings_of, method, rates):
    model = Blueprint(settings_of(method).model, 30, 3, 0).build()
    assert list(model.drop_rates().values()) == rates


def test_drop_rates_are_the_expected_ones(tiny, trained, settings_of):
    expected = [1 - layer.sampler.rate.mean().item() for layer in trained.layers]
    assert trained.drop_rates() == dict(zip(("layers.0", "layers.1"), expected, strict=True))
    settings = settings_of("GCN-BBGDC-LOCAL").model
    local = Blueprint(settings, 30, 3, tiny.graph.num_edges).build()
    expected = [1 - layer.sampler.rate.mean().mean().item() for layer in local.layers]
    assert list(local.drop_rates().values()) == expected
