"""``calibrate`` refuses what it cannot read; a calibrator survives a file and corrects samples."""

import json
import math
from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from graphdrop import GCN, GraphDropConnect, calibrate, predict
from graphdrop.calibration.fit import METHODS, apply, calibrator_for, from_json
from graphdrop.calibration.scaling import LabelScaling, VarianceScaling
from graphdrop.calibration.temperature import TemperatureScaling
from graphdrop.inference.calibrator import Surroundings
from graphdrop.inference.labels import LabelPredictive
from graphdrop.inference.shift import CalibrationShiftWarning, describe_graph
from graphdrop.metrics import calibration_error


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


def test_any_models_logits_and_finished_predictions_are_calibrated(model_and_data):
    generator = torch.Generator().manual_seed(0)
    logits = 2.0 * torch.randn(20_000, 4, generator=generator)
    labels = torch.multinomial(torch.softmax(logits, 1), 1, generator=generator)[:, 0]
    plain = logits * 2.0
    calibrator = calibrate(plain, labels)
    assert calibrator.temperature == pytest.approx(2.0, rel=0.05)
    assert float(calibration_error(apply(calibrator, plain), labels)) < 0.012
    answer = predict(*model_and_data, 3, calibrator=None)
    tempered = apply(TemperatureScaling(2.0), answer)
    assert tempered.calibrated == "mean"
    assert bool(tempered.expected_entropy.isnan().all())
    with pytest.raises(ValueError, match="labels has 3 entries for 20000 predictions"):
        calibrate(plain, labels[:3])
