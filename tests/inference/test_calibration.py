"""Calibrators find the truth where it is known, and samples are corrected, not their mean."""

import json
import math
from dataclasses import replace

import pytest
import torch
from scipy.optimize import minimize_scalar
from torch_geometric.data import Data

from graphdrop import GCN, GraphDropConnect, calibrate, predict
from graphdrop.inference.calibrating import apply
from graphdrop.inference.calibration import (
    METHODS,
    LabelScaling,
    Surroundings,
    TemperatureScaling,
    VarianceScaling,
    VectorScaling,
    calibrator_for,
    from_json,
    to_json,
)
from graphdrop.inference.calibration.labels import ENOUGH
from graphdrop.inference.shift import CalibrationShiftWarning, described
from graphdrop.metrics import calibration_error, calibration_floor, nll

NODES, CLASSES, SAMPLES = 20_000, 4, 3


def draw(probabilities: torch.Tensor, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.multinomial(probabilities, 1, generator=generator).squeeze(1)


@pytest.fixture(scope="module")
def logits() -> torch.Tensor:
    """Samples whose tempered mean, at a temperature of 1, is the truth."""
    generator = torch.Generator().manual_seed(0)
    base = 2.0 * torch.randn(1, NODES, CLASSES, generator=generator)
    return base + 0.7 * torch.randn(SAMPLES, NODES, CLASSES, generator=generator)


@pytest.mark.parametrize("truth", [0.4, 2.5])
def test_the_temperature_of_samples_is_found(logits, truth):
    labels = draw(torch.softmax(logits, 2).mean(0))
    found = TemperatureScaling.fit(lambda: iter(logits * truth), labels)
    assert found.temperature == pytest.approx(truth, rel=0.05)
    tempered = torch.softmax(found.correct(logits * truth), 2).mean(0)
    assert float(calibration_error(tempered, labels)) < 0.012


def test_the_temperature_is_the_minimum_of_the_likelihood_of_the_mean(logits):
    labels = draw(torch.softmax(logits[:, :500] / 1.7, 2).mean(0))
    few = logits[:, :500]

    def loss(temperature: float) -> float:
        return float(nll(torch.softmax(few.double() / temperature, 2).mean(0), labels))

    best = TemperatureScaling.fit(lambda: iter(few), labels).temperature
    assert all(loss(best) <= loss(best * factor) + 1e-9 for factor in (0.8, 0.97, 1.03, 1.25))


def test_a_temperature_that_makes_no_difference_is_one():
    same = torch.zeros(1, 10, 3)
    assert TemperatureScaling.fit(lambda: iter(same), torch.arange(10) % 3).temperature == 1.0


def test_few_nodes_that_are_all_right_do_not_freeze_the_temperature():
    outputs = torch.zeros(1, 35, 3)
    outputs[:, :, 0] = 2.0
    found = TemperatureScaling.fit(lambda: iter(outputs), torch.zeros(35, dtype=torch.long))
    assert 0.2 < found.temperature < 1.0


@pytest.mark.parametrize("nodes", [10, 49])
def test_few_nodes_have_a_normal_prior_on_the_logarithm_of_the_temperature(logits, nodes):
    few = logits[:, :nodes].double()
    labels = draw(torch.softmax(few / 3.0, 2).mean(0))
    found = TemperatureScaling.fit(lambda: iter(few), labels).temperature

    def loss(log: float) -> float:
        mean = torch.softmax(few / math.exp(log), 2).mean(0)
        return float(nll(mean, labels)) + 0.5 * log**2 / nodes

    best = minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded", options={"xatol": 1e-6}).x
    assert math.log(found) == pytest.approx(best, abs=1e-3)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.inf, math.nan])
def test_a_temperature_is_finite_and_above_zero(temperature):
    with pytest.raises(ValueError, match="it takes a finite number above 0"):
        TemperatureScaling(temperature)


@pytest.mark.parametrize("name", METHODS)
def test_no_calibrator_is_fitted_to_no_nodes(name):
    nodes = Surroundings(torch.zeros(2, 3), torch.zeros(2, 0, dtype=torch.long))
    with pytest.raises(ValueError, match="targets is empty"):
        METHODS[name].fit_within(nodes, lambda: iter(torch.zeros(1, 0, 2)), torch.zeros(0).long())


def test_vector_scaling_finds_a_factor_and_a_shift_for_every_class(logits):
    factor, shift = torch.tensor([0.5, 1.0, 1.5, 1.0]), torch.tensor([1.0, 0.0, -0.5, 0.0])
    labels = draw(torch.softmax(logits * factor + shift, 2).mean(0))
    found = VectorScaling.fit(lambda: iter(logits), labels)
    torch.testing.assert_close(found.factor, factor, atol=0.12, rtol=0)
    relative = found.shift - found.shift.mean()
    torch.testing.assert_close(relative, shift - shift.mean(), atol=0.12, rtol=0)


def test_labels_have_a_temperature_each_and_few_ones_share_platts_numbers():
    generator = torch.Generator().manual_seed(2)
    logits = 2.0 * torch.randn(2, 4000, 3, generator=generator)
    chance = torch.sigmoid(logits * torch.tensor([0.5, 2.0, 1.0])).mean(0)
    truth = (torch.rand(chance.shape, generator=generator) < chance).float()
    truth[:, 2] = 0.0
    truth[:5, 2] = 1.0  # too few for a temperature of its own
    found = LabelScaling.fit(lambda: iter(logits), truth)
    assert found.factor[0] == pytest.approx(0.5, abs=0.05)
    assert found.factor[1] == pytest.approx(2.0, abs=0.25)
    assert found.shift[:2].tolist() == [0.0, 0.0]
    rare = torch.sigmoid(found.correct(logits[0]))[:, 2]
    assert float(rare.mean()) == pytest.approx(5 / 4000, abs=0.003)


@pytest.mark.parametrize(("yes", "no"), [(3, 1), (7, 20)])
def test_logits_that_say_nothing_become_the_mean_of_platts_targets(yes, no):
    truth = torch.cat([torch.ones(yes), torch.zeros(no)])
    found = LabelScaling.fit(lambda: iter(torch.zeros(1, yes + no)), truth)
    mean = (yes * (yes + 1) / (yes + 2) + no / (no + 2)) / (yes + no)
    assert float(torch.sigmoid(found.shift)) == pytest.approx(mean, abs=1e-5)
    shown = found.correct(torch.tensor(2.0))
    torch.testing.assert_close(shown, 2.0 * found.factor + found.shift)


def test_a_label_has_a_temperature_of_its_own_if_it_is_there_and_absent_often_enough():
    generator = torch.Generator().manual_seed(6)
    logits = torch.randn(1, 60, 4, generator=generator)
    truth = torch.zeros(60, 4)
    for label, count in enumerate((ENOUGH, ENOUGH - 1, 60 - ENOUGH, 61 - ENOUGH)):
        truth[logits[0, :, label].topk(count).indices, label] = 1.0
    found = LabelScaling.fit(lambda: iter(logits), truth)
    assert [bool(one) for one in found.shift != 0.0] == [False, True, False, True]


def test_links_have_platts_two_numbers():
    generator = torch.Generator().manual_seed(3)
    logits = 2.0 * torch.randn(1, 6000, generator=generator)
    truth = torch.rand(6000, generator=generator) < torch.sigmoid(0.6 * logits[0] - 1.0)
    found = LabelScaling.fit(lambda: iter(logits), truth)
    assert float(found.factor) == pytest.approx(0.6, abs=0.06)
    assert float(found.shift) == pytest.approx(-1.0, abs=0.1)


def test_a_variance_is_multiplied_by_the_mean_squared_error_in_its_units():
    generator = torch.Generator().manual_seed(4)
    mean, log_variance = torch.randn(5000, 1, generator=generator), torch.full((5000, 1), -1.0)
    noise = math.sqrt(3.0) * (0.5 * log_variance).exp()
    truth = mean + noise * torch.randn(5000, 1, generator=generator)
    outputs = torch.cat([mean, log_variance], 1)[None]
    found = VarianceScaling.fit(lambda: iter(outputs), truth)
    assert float(found.factor) == pytest.approx(3.0, rel=0.08)
    flat = VarianceScaling.fit(lambda: iter(outputs), truth.squeeze(1))
    assert torch.equal(flat.factor, found.factor)


def test_the_variance_of_samples_is_their_mean_variance_and_that_of_their_means():
    generator = torch.Generator().manual_seed(5)
    outputs = torch.randn(3, 8, 6, generator=generator).double()  # three targets
    truth = torch.randn(8, 3, generator=generator).double()
    mean, noise = outputs[..., :3].numpy(), outputs[..., 3:].exp().numpy()
    variance = noise.mean(0) + mean.var(0)
    expected = ((truth.numpy() - mean.mean(0)) ** 2 / variance).mean(0)
    found = VarianceScaling.fit(lambda: iter(outputs), truth)
    assert found.factor.tolist() == pytest.approx(expected.tolist())


@pytest.mark.parametrize("name", METHODS)
def test_every_calibrator_survives_json(name, monkeypatch):
    monkeypatch.setattr("graphdrop.inference.calibration.node_temperature.EPOCHS", 20)
    numbers = torch.tensor([1.5, 0.5])
    curve = (torch.tensor([0.2, 0.6]), torch.tensor([0.1, 0.9]))
    outputs = torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
    graph = Data(edge_index=torch.arange(30).repeat(2, 1).roll(1, 1), train_mask=outputs[:, 0] > 1)
    made = {
        "temperature": lambda: TemperatureScaling(1.5),
        "variance": lambda: VarianceScaling(numbers),
        "entropy-temperature": lambda: METHODS[name](1.5, 0.1, -0.7),
        "isotonic": lambda: METHODS[name]([curve, curve], 0.01),
        "cagcn": lambda: calibrate(outputs, outputs.argmin(1), name, data=graph),
        "gats": lambda: calibrate(outputs, outputs.argmin(1), name, data=graph),
    }.get(name, lambda: METHODS[name](numbers, -numbers))()
    again = from_json(json.loads(json.dumps(to_json(made))))
    unmarked = Surroundings.of(Data(edge_index=graph.edge_index), outputs)
    made, again = (c.seeing(unmarked).reading(lambda: [outputs]) for c in (made, again))
    assert torch.equal(again.correct(outputs), made.correct(outputs))


def test_labels_and_numbers_have_a_calibrator_of_their_own_whatever_the_method():
    for method in METHODS:
        assert calibrator_for(method, "classes") is METHODS[method]
        assert calibrator_for(method, "labels") is LabelScaling
        assert calibrator_for(method, "gaussian") is VarianceScaling


def test_a_calibrator_says_what_it_must_see_before_it_corrects():
    assert {name for name, kind in METHODS.items() if kind.reads_graph} == {"cagcn", "gats"}
    assert {n for n, kind in METHODS.items() if kind.reads_samples} == {"entropy-temperature"}


@pytest.fixture(scope="module")
def model_and_data() -> tuple[GCN, Data]:
    torch.manual_seed(0)
    data = Data(x=torch.rand(40, 5), edge_index=torch.randint(0, 40, (2, 160)))
    return GCN(5, 8, 2, 3, GraphDropConnect(blocks=2), seed=1).eval(), data


def test_predict_tempers_every_sample_and_its_parts_belong_together(model_and_data):
    model, data = model_and_data
    raw = predict(model, data, 5, calibrator=None)
    hot, cold = (predict(model, data, 5, calibrator=TemperatureScaling(t)) for t in (50.0, 0.02))
    assert raw.calibrated is None
    assert hot.calibrated == cold.calibrated == "samples"
    assert bool((hot.entropy > raw.entropy - 1e-6).all())
    for answer in (hot, cold):
        assert bool((answer.expected_entropy <= answer.entropy + 1e-5).all())
    assert float(cold.epistemic.mean()) > float(hot.epistemic.mean())


def test_a_model_predicts_with_the_calibrator_that_it_carries(model_and_data):
    model, data = model_and_data
    given = predict(model, data, 5, calibrator=TemperatureScaling(3.0))
    model.defaults = replace(model.defaults, calibration=to_json(TemperatureScaling(3.0)))
    assert torch.equal(predict(model, data, 5).probabilities, given.probabilities)
    assert predict(model, data, 5, calibrator=None).calibrated is None
    with pytest.raises(ValueError, match=r"TemperatureScaling, for output='classes', and"):
        predict(model, data, 5, output="labels")


def test_another_graph_than_the_calibrated_one_is_warned_of(model_and_data):
    model, data = model_and_data
    carried = {"calibration": to_json(TemperatureScaling(2.0)), "calibrated_on": described(data)}
    model.defaults = replace(model.defaults, **carried)
    predict(model, data, 2)  # the same graph: a warning would be an error
    other = Data(x=5.0 * torch.rand(30, 5), edge_index=data.edge_index % 30)
    with pytest.warns(CalibrationShiftWarning, match=r"may not transfer .*feature mean"):
        predict(model, other, 2)


def test_any_models_logits_and_finished_predictions_are_calibrated(logits, model_and_data):
    plain = logits[0] * 2.0
    labels = draw(torch.softmax(logits[0], 1))
    calibrator = calibrate(plain, labels)
    assert calibrator.temperature == pytest.approx(2.0, rel=0.05)
    assert float(calibration_error(apply(calibrator, plain), labels)) < 0.012
    answer = predict(*model_and_data, 3, calibrator=None)
    tempered = apply(TemperatureScaling(2.0), answer)
    assert tempered.calibrated == "mean"
    assert bool(tempered.expected_entropy.isnan().all())
    with pytest.raises(ValueError, match="labels has 3 entries for 20000 predictions"):
        calibrate(plain, labels[:3])


def test_the_floor_of_a_calibration_error_is_what_a_perfect_forecaster_shows():
    generator = torch.Generator().manual_seed(5)
    forecast = torch.softmax(2.0 * torch.randn(1000, 7, generator=generator), 1)
    floor = calibration_floor(forecast, forecast[:500], draws=60)
    errors = [float(calibration_error(forecast, draw(forecast, seed))) for seed in range(60)]
    assert floor.mean == pytest.approx(sum(errors) / 60, abs=0.008)
    assert floor.mean < floor.high < 0.1
    assert calibration_floor(forecast.repeat(20, 1), draws=5).mean < 0.4 * floor.mean
