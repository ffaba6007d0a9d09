"""Calibrators find the truth where it is known, and samples are corrected, not their mean."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, minimize_scalar
from torch_geometric.data import Data

from graphdrop import GCN, GraphDropConnect, calibrate, predict
from graphdrop.calibration import calibration_floor, scaling
from graphdrop.calibration.fit import METHODS, apply, calibrator_for, from_json
from graphdrop.calibration.scaling import LabelScaling, VarianceScaling, VectorScaling
from graphdrop.calibration.temperature import EntropyTemperatureScaling, TemperatureScaling
from graphdrop.inference.calibrator import Surroundings
from graphdrop.inference.labels import LabelPredictive
from graphdrop.inference.shift import CalibrationShiftWarning, describe_graph
from graphdrop.metrics import calibration_error, nll

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


def test_a_temperature_that_makes_no_difference_is_one():
    same = torch.zeros(1, 10, 3)
    assert TemperatureScaling.fit(lambda: iter(same), torch.arange(10) % 3).temperature == 1.0


def test_one_more_right_node_hardly_changes_a_temperature():
    """Where all nodes are right, the likelihood alone takes the coldest temperature there is."""
    outputs = torch.zeros(1, 100, 3)
    outputs[:, :, 0] = 2.0
    labels = torch.zeros(100, dtype=torch.long)
    for kind in (TemperatureScaling, EntropyTemperatureScaling):
        fits = [kind.fit(lambda n=n: iter(outputs[:, :n]), labels[:n]) for n in (99, 100)]
        shown = [c.corrector(lambda: iter(outputs))(outputs)[0, 0, 0] for c in fits]
        assert fits[0].temperature == pytest.approx(fits[1].temperature, rel=0.01)
        assert float(shown[0]) == pytest.approx(float(shown[1]), rel=0.01)
        assert 2.0 < float(shown[0]) < 2.0 / 0.2


@pytest.mark.parametrize("nodes", [10, 99, 500])
def test_the_logarithm_of_the_temperature_has_a_normal_prior_at_any_number_of_nodes(logits, nodes):
    few = logits[:, :nodes].double()
    labels = draw(torch.softmax(few / 3.0, 2).mean(0))
    found = TemperatureScaling.fit(lambda: iter(few), labels).temperature

    def loss(log: float) -> float:
        mean = torch.softmax(few / math.exp(log), 2).mean(0)
        return nodes * float(nll(mean, labels)) + 0.5 * (log / 0.3) ** 2

    best = minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded", options={"xatol": 1e-7}).x
    assert math.log(found) == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.inf, math.nan])
def test_a_temperature_is_finite_and_above_zero(temperature):
    with pytest.raises(ValueError, match="it takes a finite number above 0"):
        TemperatureScaling(temperature)


@pytest.mark.parametrize("name", METHODS)
def test_no_calibrator_is_fitted_to_no_nodes(name):
    nodes = Surroundings(torch.zeros(2, 3), torch.zeros(2, 0, dtype=torch.long))
    with pytest.raises(ValueError, match="targets is empty"):
        METHODS[name].fit(lambda: iter(torch.zeros(1, 0, 2)), torch.zeros(0).long(), nodes)


@pytest.mark.parametrize(
    "method", ["temperature", "entropy-temperature", "vector", "isotonic", "cagcn", "gats"]
)
def test_labels_outside_the_classes_and_logits_that_are_not_finite_are_refused(method):
    logits, truth = torch.eye(3).repeat(4, 1), torch.arange(12) % 3
    graph = Data(edge_index=torch.arange(12).repeat(2, 1).roll(1, 1))
    for wrong in (-1, 3):
        with pytest.raises(ValueError, match=rf"labels ranges .*{wrong}.* in 0\.\.2"):
            calibrate(
                logits, truth.clone().index_fill_(0, torch.tensor([5]), wrong), method, data=graph
            )
    for labels in (truth.float(), truth > 0):  # such as a mask in the place of the labels
        with pytest.raises(ValueError, match="but class ids are integers"):
            calibrate(logits, labels, method, data=graph)
    for wrong in (math.nan, math.inf, -math.inf):
        logits[7, 1] = wrong
        with pytest.raises(ValueError, match="a logit that is not finite in row 7"):
            calibrate(logits, truth, method, data=graph)


def test_answers_to_labels_are_0_or_1_for_every_node_and_label():
    answer = LabelPredictive(*[torch.full((6, 2), 0.3)] * 3, samples=4)
    truth = torch.zeros(6, 2)
    calibrate(answer, truth)
    for wrong, said in ((truth + 2, "not 0 or 1"), (truth[:, 0], r"shape \(6,\)")):
        with pytest.raises(ValueError, match=said):
            calibrate(answer, wrong)


def test_vector_scaling_finds_a_factor_and_a_shift_for_every_class(logits):
    factor, shift = torch.tensor([0.5, 1.0, 1.5, 1.0]), torch.tensor([1.0, 0.0, -0.5, 0.0])
    labels = draw(torch.softmax(logits * factor + shift, 2).mean(0))
    found = VectorScaling.fit(lambda: iter(logits), labels)
    torch.testing.assert_close(found.factor, factor, atol=0.12, rtol=0)
    relative = found.shift - found.shift.mean()
    torch.testing.assert_close(relative, shift - shift.mean(), atol=0.12, rtol=0)


def test_labels_have_two_numbers_each_and_few_entries_follow_the_other_labels():
    generator = torch.Generator().manual_seed(2)
    logits = 2.0 * torch.randn(2, 4000, 4, generator=generator)
    chance = torch.sigmoid(logits * torch.tensor([0.5, 2.0, 1.0, 1.0])).mean(0)
    truth = (torch.rand(chance.shape, generator=generator) < chance).float()
    truth[:, 2] = 0.0
    truth[:5, 2] = 1.0
    found = LabelScaling.fit(lambda: iter(logits), truth)
    assert found.factor[0] == pytest.approx(0.5, abs=0.08)
    assert found.factor[1] == pytest.approx(2.0, abs=0.25)
    rare = torch.sigmoid(found.correct(logits[0]))[:, 2]
    assert float(rare.mean()) < 0.01
    few = LabelScaling.fit(lambda: iter(logits[:, :4]), truth[:4])
    assert float(few.factor.std()) < 0.5 * float(found.factor.std())


def test_platts_numbers_of_a_label_have_normal_priors_around_those_of_all():
    generator = torch.Generator().manual_seed(3)
    logits = 2.0 * torch.randn(2, 25, 3, generator=generator).double()
    truth = (torch.rand(25, 3, generator=generator) < 0.4).double()
    found = LabelScaling.fit(lambda: iter(logits), truth)
    deviations = np.array([scaling.LABEL_FACTOR_DEVIATION, scaling.SHIFT_DEVIATION])

    def best(columns, center):
        def loss(numbers):
            chance = torch.sigmoid(logits[..., columns] * math.exp(numbers[0]) + numbers[1]).mean(0)
            own = torch.where(truth[:, columns] == 1.0, chance, 1.0 - chance).log().sum()
            apart = (numbers - center) / deviations
            return float(-own) + 0.5 * float(apart @ apart)

        options = {"xatol": 1e-7, "fatol": 1e-10}
        return minimize(loss, center, method="Nelder-Mead", options=options).x

    common = best([0, 1, 2], np.zeros(2))
    expected = np.array([best([label], common) for label in range(3)])
    assert found.factor.log().tolist() == pytest.approx(expected[:, 0].tolist(), abs=1e-3)
    assert found.shift.tolist() == pytest.approx(expected[:, 1].tolist(), abs=1e-3)


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
    expected = (10 + ((truth.numpy() - mean.mean(0)) ** 2 / variance).sum(0)) / (10 + 8)
    found = VarianceScaling.fit(lambda: iter(outputs), truth)
    assert found.factor.tolist() == pytest.approx(expected.tolist())


@pytest.mark.parametrize("name", METHODS)
def test_every_calibrator_survives_json(name, monkeypatch):
    monkeypatch.setattr("graphdrop.calibration.node_temperature.EPOCHS", 20)
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
    again = from_json(json.loads(json.dumps({"name": name, **made.as_json()})))
    unmarked = Surroundings.of(Data(edge_index=graph.edge_index), outputs)
    made, again = (c.corrector(lambda: [outputs], unmarked) for c in (made, again))
    assert torch.equal(again(outputs), made(outputs))


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


def test_vector_scaling_has_normal_priors_around_plain_temperature_scaling(logits):
    few, nodes = logits[:, :30].double(), 30
    answers = draw(torch.softmax(few / 2.0, 2).mean(0))
    found = VectorScaling.fit(lambda: iter(few), answers)
    start = 1.0 / TemperatureScaling.fit(lambda: iter(few), answers).temperature
    deviations = np.repeat([scaling.CLASS_FACTOR_DEVIATION, scaling.SHIFT_DEVIATION], CLASSES)

    def loss(numbers):
        factor, shift = torch.from_numpy(numbers).view(2, CLASSES)
        mean = torch.softmax(few * start * factor.exp() + shift, 2).mean(0)
        return nodes * float(nll(mean, answers)) + 0.5 * float(
            np.square(numbers / deviations).sum()
        )

    best = minimize(loss, np.zeros(2 * CLASSES), method="BFGS").x
    assert (found.factor / start).log().tolist() == pytest.approx(best[:CLASSES].tolist(), abs=1e-3)
    assert found.shift.tolist() == pytest.approx(best[CLASSES:].tolist(), abs=1e-3)


def test_a_model_predicts_with_the_calibrator_that_it_carries(model_and_data):
    model, data = model_and_data
    given = predict(model, data, 5, calibrator=TemperatureScaling(3.0))
    model.defaults = replace(model.defaults, calibrator=TemperatureScaling(3.0))
    assert torch.equal(predict(model, data, 5).probabilities, given.probabilities)
    assert predict(model, data, 5, calibrator=None).calibrated is None
    with pytest.raises(ValueError, match=r"TemperatureScaling, for output='classes', and"):
        predict(model, data, 5, output="labels")


def test_another_graph_than_the_calibrated_one_is_warned_of(model_and_data):
    model, data = model_and_data
    carried = {"calibrator": TemperatureScaling(2.0), "calibrated_on": describe_graph(data)}
    model.defaults = replace(model.defaults, **carried)
    predict(model, data, 2)  # the same graph: a warning would be an error
    other = Data(x=5.0 * torch.rand(30, 5), edge_index=data.edge_index % 30)
    with pytest.warns(CalibrationShiftWarning, match=r"may not transfer .*feature mean") as caught:
        predict(model, other, 2)
    assert f"this one has 30 nodes and {other.num_edges} edges" in str(caught[0].message)
    assert caught[0].filename == __file__


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
