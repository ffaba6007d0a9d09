"""What is written down of a run is what its network says."""

import itertools
import json

import pytest
import torch

from contracts import shadow_device
from contracts.single_layers import one_pass
from experiments.keys import run_key, settled
from experiments.measures import COVERAGES, compact, measures
from experiments.single_run import (
    Smoothing,
    checked_run,
    data_fingerprint,
    kl_course,
    run_config,
    seconds_per_epoch,
)
from graphdrop import metrics
from graphdrop.data import load_dataset
from graphdrop.graph import Graph
from graphdrop.metrics.scoring import accuracy
from graphdrop.sampling.samplers import Draw
from graphdrop.train import Trainer, run
from graphdrop.train.progress import Silent


@pytest.fixture(scope="module")
def synthetic():
    return load_dataset("synthetic")


def test_a_run_elsewhere_refuses_other_data_and_makes_the_same_record(tiny_config):
    config, options = tiny_config(3), {"watch": False, "blind": True}
    data, key = data_fingerprint(config), run_key(config)
    for wrong in ((key, "0" * 64), ("0" * 24, data)):
        with pytest.raises(ValueError, match="synthetic is not the same on"):
            checked_run(config, options, *wrong)
    assert checked_run(config, options, key, data)["data"] == data


@pytest.mark.parametrize("blind", [False, True], ids=["whole", "blind"])
def test_a_run_on_a_device_leaves_the_record_of_the_cpu(tiny_config, monkeypatch, blind):
    adam = torch.optim.Adam  # of which the stand-in for a device has no fused form
    monkeypatch.setattr(torch.optim, "Adam", lambda p, rate, fused: adam(p, rate, foreach=False))
    monkeypatch.setattr(run, "find_device", torch.device)
    wanted = run_config(tiny_config(3), watch=True, blind=blind)
    with shadow_device.without_float64() as (device, asked):
        got = run_config(tiny_config(3), watch=True, blind=blind, device=str(device))
    assert asked == []
    assert got.pop("device") == str(device)
    assert got["key"] == wanted["key"]
    assert got["validation"] == pytest.approx(wanted["validation"], rel=1e-3)
    if not blind:
        assert got["test"] == pytest.approx(wanted["test"], rel=1e-3)
        course = [record["total_variation"]["layers"] for record in (got, wanted)]
        assert course[0] == [pytest.approx(layer, rel=1e-4) for layer in course[1]]


def test_a_record_says_what_the_trainer_says(tiny_config, synthetic):
    config = tiny_config(3)
    record = run_config(config)
    result = Trainer(config, synthetic, progress=Silent()).fit()
    assert record["key"] == run_key(config)
    assert record["config"] == settled(config)
    assert record["seed"] == 3
    assert (record["epochs"], record["selected_epoch"]) == (4, result.selected_epoch)
    assert record["drop_rates"] == pytest.approx(result.drop_rates, rel=1e-4)
    for part in ("validation", "test"):
        score = getattr(result, part)
        for name in ("accuracy", "accuracy_vote", "accuracy_mean", "nll", "ece", "pavpu"):
            assert record[part][name] == pytest.approx(getattr(score, name), rel=1e-4)
    assert record["peak_megabytes"] > 10
    assert record["seconds"] >= 4 * record["seconds_per_epoch"] > 0
    assert "total_variation" not in record


def test_a_record_is_small_and_json(tiny_config):
    line = json.dumps(run_config(tiny_config()), allow_nan=False, separators=(",", ":"))
    assert len(line) < 4000


def test_curves_are_those_of_the_metrics(tiny_config, synthetic):
    config = tiny_config()
    trainer = Trainer(config, synthetic, progress=Silent())
    trainer.fit()
    curves = measures(trainer)["curves"]
    rows = trainer.rows["test"]
    prediction = trainer.predict(rows)
    labels = trainer.data.y[rows]
    known = {"predictions": prediction.vote}
    for axis, values in curves["pavpu"].items():
        expected = metrics.pavpu_curve(prediction.probabilities, labels, axis=axis, **known)
        assert values == expected.pavpu.tolist()
    assert sum(curves["reliability"]["examples"]) == len(rows)
    assert len(curves["risk"]) == COVERAGES
    half = metrics.selective_risk(prediction.probabilities, labels, 0.5, **known)
    assert curves["risk"][COVERAGES // 2 - 1] == pytest.approx(float(half))
    assert curves["risk"][-1] == pytest.approx(1 - accuracy(prediction.vote, labels))


def test_dropout_is_scored_both_without_masks_and_sampled(tiny_config):
    model = {"method": "GCN-DO", "layers": 2, "hidden": 8, "dropout": 0.8}
    record = run_config(tiny_config(model=model))
    assert record["config"]["predict"]["masks"] == "off"
    assert record["sampled"]["test"]["nll"] != record["test"]["nll"]
    # At the largest entropy everything is certain: PAvPU is the accuracy of the samples.
    last = record["curves"]["pavpu"]["fraction-of-largest"][-1]
    assert last == record["sampled"]["test"]["accuracy"]
    assert record["kl"] is None
    assert "sampled" not in run_config(tiny_config())


def test_watching_changes_nothing_but_adds_the_total_variation(tiny_config):
    plain, watched = run_config(tiny_config()), run_config(tiny_config(), watch=True)
    assert watched["key"] != plain["key"]
    assert watched["test"] == plain["test"]
    course = watched["total_variation"]
    assert course["epochs"] == [2, 4]
    assert [len(layer) for layer in course["layers"]] == [2, 2]


def test_total_variation_is_of_the_outputs_after_the_activation(tiny_config, synthetic):
    config = tiny_config(model={"method": "GCN-DO", "layers": 2, "hidden": 4, "dropout": 0.5})
    trainer = Trainer(config, synthetic, progress=Silent())
    smoothing = Smoothing(trainer)
    smoothing.look(7)
    draw = Draw(config.seed, (1 << 62) + 7)
    data, (first, _) = trainer.data, trainer.model.layers
    graph = Graph.from_edge_index(
        data.edge_index, len(data.y), normalization=trainer.model.normalization
    )
    hidden = torch.relu(one_pass(first, trainer.run.inputs.x, graph, draw)).detach()
    expected = metrics.total_variation(hidden, data.edge_index)
    assert smoothing.course() == {
        "epochs": [7],
        "layers": [[pytest.approx(float(expected), rel=1e-5)]],
    }


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_the_kl_is_that_of_one_rate_whatever_its_weight(tiny_config, synthetic, reduction):
    # One epoch: the KL of that epoch is the one of the first state.
    config = tiny_config(
        model={"method": "GCN-BBDE-LOCAL", "layers": 2, "hidden": 4},
        objective={"kl_reduction": reduction, "kl_weight": 0.25, "warmup": 8},
        train={"epochs": 1},
    )
    fresh = Trainer(config, synthetic, progress=Silent())
    rates = [layer.sampler.rate for layer in fresh.run.objective.layers]
    expected = sum(float(rate.kl().detach()) / rate.entries.numel() for rate in rates)
    fresh.fit()
    course = kl_course(fresh)
    assert course["epochs"] == [1]
    assert course["values"] == [pytest.approx(expected, rel=1e-4)]


def test_a_run_that_diverges_is_written_down_as_such(tiny_config):
    record = run_config(tiny_config(train={"learning_rate": 1e30}))
    assert "diverged" in record["error"]
    assert "test" not in record


def lines_taking(*seconds: float) -> list[dict]:
    ends = itertools.accumulate(seconds)
    return [{"epoch": n, "seconds": end} for n, end in enumerate(ends, 1)]


def test_seconds_per_epoch_are_those_of_a_machine_that_is_not_busy():
    lines = lines_taking(9.0, *[5.0] * 10, *[0.1, 0.3] * 15)
    assert seconds_per_epoch(lines) == pytest.approx(0.2)


def test_numbers_are_kept_to_five_digits_and_none_stands_for_no_number():
    assert compact({"a": [0.123456789, float("nan")], "b": (1, "x", None)}) == {
        "a": [0.12346, None],
        "b": [1, "x", None],
    }
