"""A run with a calibrator: fitted on validation nodes, carried by the model, raw figures beside."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphdrop import load, load_dataset, predict
from graphdrop.calibration.post_hoc import predict_out_of_fold
from graphdrop.calibration.temperature import TemperatureScaling
from graphdrop.data.splits import split_by_time
from graphdrop.train import Trainer
from graphdrop.train.baselines import GivenOutputs
from graphdrop.train.progress import Silent
from graphdrop.train.scoring import (
    SCORED,
    ScoredSamples,
    read_calibration_nodes,
    score_calibrated,
)


def test_validation_figures_are_out_of_fold(tiny, settings_of):
    config = settings_of(train={"epochs": 20}, predict={"calibration": "temperature"})
    trainer = Trainer(config, tiny, progress=Silent())
    trainer.fit()
    rows = trainer.rows["validation"]
    drawn = ScoredSamples(trainer.run)
    kind = TemperatureScaling
    halves = read_calibration_nodes(trainer.run, drawn, kind, rows).fit_halves(kind)
    together = predict_out_of_fold(drawn, halves, rows)
    for half, other in zip(halves.rows, reversed(halves.calibrators), strict=True):
        alone = predict(trainer.model, trainer.data, rows=half, calibrator=other)
        places = torch.isin(rows, half)
        order = torch.argsort(torch.argsort(rows[places]))
        wanted = alone.probabilities[torch.argsort(half)][order]
        torch.testing.assert_close(together.probabilities[places], wanted)


@pytest.mark.parametrize("method", ["entropy-temperature", "gats", "none"])
def test_samples_that_are_drawn_once_give_the_prediction_of_predict(tiny, settings_of, method):
    config = settings_of(train={"epochs": 6}, predict={"calibration": method})
    trainer = Trainer(config, tiny, progress=Silent())
    trainer.fit()
    drawn, rows = ScoredSamples(trainer.run), trainer.rows["test"].flip(0)
    for calibrator in ("model", None):
        once, again = drawn.predict(rows, calibrator), trainer.predict(rows, calibrator=calibrator)
        torch.testing.assert_close(once.probabilities, again.probabilities)
        torch.testing.assert_close(once.expected_entropy, again.expected_entropy)
        assert once.calibrated == again.calibrated
        assert torch.equal(once.origin.rows, again.origin.rows)
    others = trainer.rows["train"]  # which are not kept
    again = trainer.predict(others)
    torch.testing.assert_close(drawn.predict(others).probabilities, again.probabilities)


@pytest.mark.parametrize("method", ["entropy-temperature", "isotonic", "cagcn", "gats"])
def test_every_calibrator_is_saved_with_the_model(tiny, settings_of, tmp_path, method):
    config = settings_of(train={"epochs": 6}, predict={"calibration": method})
    trainer = Trainer(config, tiny, tmp_path / "run", progress=Silent())
    result = trainer.fit()
    assert result.calibration["name"] == method
    assert "weights" not in result.calibration
    answer = predict(load(tmp_path / "run"), tiny.data)
    assert torch.equal(answer.probabilities, predict(trainer.model, tiny.data).probabilities)
    raw = predict(trainer.model, tiny.data, calibrator=None)
    assert not torch.equal(raw.probabilities, answer.probabilities)


@pytest.mark.parametrize("method", ["temperature", "none"])
def test_sets_are_exact_only_by_nodes_reserved_for_them(tiny, settings_of, tmp_path, method):
    for fraction in (0.0, 0.5):
        config = settings_of(data={"calibration": fraction}, predict={"calibration": method})
        trainer = Trainer(config, tiny, tmp_path / str(fraction), progress=Silent())
        trainer.fit()
        rows = trainer.rows
        used = torch.cat([rows["train"], rows["validation"], rows["test"]])
        if method != "none":
            used = torch.cat([used, rows["calibration"]])
        assert bool(torch.isin(rows["sets"], used).any()) == (fraction == 0.0)
        answer = predict(load(tmp_path / str(fraction)), tiny.data)
        assert torch.equal(answer.origin.set_nodes.nodes, rows["sets"])
        for method_of_sets in ("lac", "aps", "daps", "snaps"):
            assert answer.sets(0.5, method_of_sets).approximate == (fraction == 0.0)
        given = rows["sets"], trainer.run.targets[rows["sets"]]
        assert torch.equal(answer.sets(0.5, calibration=given).members, answer.sets(0.5).members)


@pytest.mark.parametrize(
    ("limit", "most", "expected"),
    [
        (0.0, 30, 30),  # no limit: exactly as many as the settings say
        (10.0, 90, 20),  # the first samples are enough
        (1e-9, 90, 90),  # never enough: the cap holds
        (1e-9, 15, 15),  # a cap below the first samples
    ],
)
def test_samples_are_drawn_until_their_error_is_small_and_never_more_than_the_cap(
    limit, most, expected, settings_of, tiny
):
    predict = {"samples": most, "standard_error": limit, "calibration": "temperature"}
    trainer = Trainer(settings_of(predict=predict), tiny, progress=Silent())
    trainer.fit()
    assert trainer.run.engine.defaults.samples == expected
    assert trainer.predict(trainer.rows["test"]).samples == expected


def test_as_many_samples_calibrate_the_network_as_it_predicts_with(settings_of, tiny, tmp_path):
    first = {"samples": 1000, "standard_error": 1e-9, "calibration": "temperature"}
    # a limit that twenty samples miss and a thousand are not needed for
    trainer = Trainer(settings_of(predict=first | {"samples": 20}), tiny, progress=Silent())
    trainer.fit()
    limit = 0.6 * trainer.predict(ScoredSamples(trainer.run).rows).largest_error
    config = settings_of(predict=first | {"standard_error": limit})
    trainer = Trainer(config, tiny, tmp_path / "a", progress=Silent())
    result = trainer.fit()
    count = trainer.run.engine.defaults.samples
    assert 20 < count < 1000
    assert count % 20 == 0
    assert trainer.predict(ScoredSamples(trainer.run).rows).largest_error <= limit
    # the calibrator is that of so many samples, drawn by themselves, and so is the saved network
    rows = trainer.rows["calibration"]
    with torch.no_grad():
        alone = list(trainer.run.predictive_samples(rows))
    assert len(alone) == count
    fitted = TemperatureScaling.fit(lambda: iter(alone), trainer.run.targets[rows])
    assert fitted.temperature == pytest.approx(result.calibration["temperature"], rel=1e-4)
    assert load(tmp_path / "a").defaults.samples == count
    again = Trainer(config, tiny, progress=Silent())
    again.fit()
    assert again.run.engine.defaults.samples == count


@pytest.mark.parametrize("drifts", [True, False])
def test_a_calibrator_that_newer_validation_nodes_refute_is_not_applied(settings_of, drifts):
    """Older nodes are right more often than their probabilities say, newer ones are not."""
    nodes = 1000
    y = torch.arange(nodes) % 2
    data = Data(x=torch.rand(nodes, 2), edge_index=torch.zeros(2, 0, dtype=torch.long), y=y)
    split = split_by_time(np.arange(nodes), torch.ones(nodes, dtype=torch.bool))
    dataset = replace(load_dataset(data, split=split), times=torch.arange(nodes))
    config = settings_of("GCN", predict={"calibration": "temperature"})
    trainer = Trainer(config, dataset, progress=Silent())
    wrong = torch.arange(nodes) % 100 < 35
    older = torch.arange(nodes) < 700  # the validation nodes are 600 to 799
    says = torch.where(wrong & ~(older & drifts), 1 - y, y)
    drawn = GivenOutputs(trainer.run, 0.6 * torch.nn.functional.one_hot(says, 2).float())
    raw = {
        part: trainer.run.scores(part, drawn.predict(trainer.rows[part], None)) for part in SCORED
    }
    found = score_calibrated(trainer.run, drawn, raw, 1)
    assert found["calibration"]["name"] == ("none" if drifts else "temperature")
    assert (trainer.run.engine.defaults.calibrator is None) is drifts
    notes = [one for one in found["warnings"] if "it is not applied" in one]
    assert len(notes) == drifts
    if drifts:
        assert "the later half of the validation nodes" in notes[0]
        assert found["validation"] == raw["validation"]
